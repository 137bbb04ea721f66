"""Templates of the paths of each day's file."""

import datetime as dt

import pytest

from workers.lake.day_paths import check_day_path, registry_address, split_day_path

DAY = dt.date(2026, 3, 2)


@pytest.mark.parametrize(
    ("template", "folder", "name"),
    [
        ("s3://b/{model}/{day:%Y/%m/%d}/model.json", "s3://b", "ads/2026/03/02/model.json"),
        ("s3://b/p/{day}/m.cbm?region=eu", "s3://b/p?region=eu", "2026-03-02/m.cbm"),
        ("gs://b/x/y-{day:%Y%m%d}.txt", "gs://b/x", "y-20260302.txt"),
        ("file:///srv/m/{day}.ubj", "file:///srv/m", "2026-03-02.ubj"),
        ("/srv/{{m}}/{model}-{day}.ubj", "/srv/{m}", "ads-2026-03-02.ubj"),
        ("/srv/a?b/{day}.ubj", "/srv/a?b", "2026-03-02.ubj"),
        ("/{day}.txt", "/", "2026-03-02.txt"),
        ("{day}.txt", ".", "2026-03-02.txt"),
    ],
)
def test_a_template_is_a_folder_of_all_days_and_a_file_of_each(
    template: str, folder: str, name: str
) -> None:
    assert split_day_path(check_day_path(template), "ads", DAY) == (folder, name)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("m/model.json", "names no day"),
        ("{model}.json", "names no day"),
        ("{{day}}.json", "names no day"),
        ("{day:%Y/%m}.json", "the same path for several days"),
        ("{day:%m-%d}.json", "the same path for"),
        ("{day", "without its pair"),
        ("day}", "without its pair"),
        ("{date}.json", "has the placeholder {date}"),
        ("{}.json", "has the placeholder {}"),
        ("{day.year}.json", "has the placeholder {day.year}"),
        ("{day!r}.json", "has the placeholder {day}"),
        ("{model:>9}/{day}", "has the placeholder {model}"),
        ("{day:{model}}", "has the placeholder {day}"),
        ("s3://{model}/{day}", "has no bucket before its first brace"),
        ("s3://b-{day}/m", "has no bucket before"),
        ("s3://b/{day}?region={model}", "behind its question mark"),
    ],
)
def test_a_template_that_names_no_single_file_for_each_day_is_refused(
    template: str, words: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its words are looked at
        check_day_path(template)
    assert words in str(caught.value)


@pytest.mark.parametrize("address", ["models:/ads/3", "models:/ads@a b", "models:/@x", "ads@x"])
def test_an_address_is_a_name_and_an_alias(address: str) -> None:
    with pytest.raises(ValueError, match=r"write models:/NAME@\{day\}"):
        registry_address(address)
