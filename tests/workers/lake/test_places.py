import datetime as dt
import os
import pathlib

import hypothesis
import pytest
from hypothesis import strategies

from privcore.exceptions import TerminalError
from tests.support.warehouse import evaluated, failed
from workers.audit.verify import Finding, verify_all_stored
from workers.lake.layout import Lake, open_filesystem
from workers.lake.places import (
    check_day_path,
    check_uri,
    local_path,
    registry_address,
    split_day_path,
)
from workers.warehouse.maintenance import compact, delete_before
from workers.warehouse.sql import RELATIONS, export, query
from workers.warehouse.store import Warehouse

ODD = """a b zoë日本a#b?b100%'"{}()<>*;:@+&=$HOME`x`"""
NAMES = [ODD, "~", "s3:", " "]
NEVER = ["a[b]", "a]b", "a^b", "a|b", "a\\b", "a\nb", "a%20b", "a%2Fb", os.fsdecode(b"a\xffb")]
"""What Delta Lake cannot have in a path."""


def places(folder: pathlib.Path) -> list[str]:
    return [str(folder / "by path"), (folder / "by uri").as_uri()]


@pytest.mark.slow
@pytest.mark.parametrize("name", [ODD, "~"])
def test_a_warehouse_works_whole_in_a_folder_of_any_name(name, tmp_path):
    for place in places(tmp_path / name):
        warehouse = Warehouse(place)
        record = evaluated("ads", DAY)
        assert warehouse.commit([record, record]) == (True, False)
        assert warehouse.commit([failed("loans", DAY)]) == (True,)
        assert warehouse.current()["model"].to_list() == ["ads", "loans"]
        assert query(warehouse, "from latest_audits").height == 2
        assert query(warehouse, "from epsilon_windows").height == 1
        files = export(warehouse, tmp_path / name / "out")
        assert [file.exists() for file in files] == [True] * len(RELATIONS)
        assert {table.files_after for table in compact(warehouse)} == {1}
        assert {one.finding for one in verify_all_stored(warehouse)} == {Finding.INTACT}
        assert delete_before(warehouse, DAY + dt.timedelta(days=1)) == 2
    # Nothing lies beside the folder that was named.
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == ["by path", "by uri", "out"]


@pytest.mark.parametrize("name", NEVER, ids=ascii)
def test_a_folder_that_delta_lake_cannot_have_is_refused_before_anything_is_written(name, tmp_path):
    for place in places(tmp_path / name):
        warehouse = Warehouse(place)
        for attempt in (
            lambda: warehouse.commit([failed("ads", DAY)]),  # noqa: B023
            warehouse.current,
            lambda: query(warehouse, "from audits"),  # noqa: B023
        ):
            with pytest.raises(TerminalError, match="cannot keep tables below") as caught:
                attempt()
            assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*NAMES, *NEVER[:-1]])
def test_a_lake_is_read_and_written_in_a_folder_of_any_name(name, tmp_path):
    for place in places(tmp_path / name):
        lake = Lake(place)
        lake.write("models/ads/day=2026-03-02/_SUCCESS", b"")
        assert list(lake.models()) == ["ads"]
        assert lake.exists("models/ads/day=2026-03-02")
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == ["by path", "by uri"]


FILE_NAMES = strategies.text(
    strategies.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1
).filter(lambda name: name not in {".", ".."})


@hypothesis.given(names=strategies.lists(FILE_NAMES, min_size=1, max_size=3))
def test_a_path_and_its_file_uri_are_one_place(names):
    path = pathlib.Path("/", *names)
    assert local_path(str(path)) == local_path(path.as_uri()) == path
    assert local_path(f"FILE://localhost{path.as_uri().removeprefix('file://')}") == path


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("file:///a%20b", "/a b"),
        ("file:///a b#c?d", "/a b#c?d"),  # not encoded, but meant
        ("/s3://x", "/s3://x"),
        ("/file:///x", "/file:///x"),
        ("/a%20b", "/a%20b"),
        ("s3://b/k", None),
        ("abfs://c@a.dfs.core.windows.net/x", None),
    ],
)
def test_a_place_on_this_machine_has_one_path_and_an_object_store_none(place, path):
    assert local_path(place) == (path and pathlib.Path(path))


@pytest.mark.parametrize("place", ["file://elsewhere/x", "/a\0b", "file:///a%00b"])
def test_what_names_no_path_of_this_machine_is_refused(place):
    with pytest.raises(TerminalError) as caught:
        local_path(place)
    assert str(caught.value).isprintable()


SECRET = "topsecret"  # noqa: S105
AZURE = "account.dfs.core.windows.net"
CREDENTIALS = [
    *(f"s3://{each}" for each in (
        "AKIA:topsecret@bucket/lake", "AKIA:topsecret/lake", "bucket/lake?pw=topsecret",
        "bucket/lake?region=eu&x=topsecret", "bucket/lake?%73ecret_key=topsecret",
        "bucket/lake?endpoint_override=http://host%3Fkey%3Dtopsecret", "bucket/lake#topsecret",
        "bucket/lake?endpoint_override=http://key:topsecret@host", "AKIA%3Atopsecret%40bucket/lake",
        "topsecret@bucket/lake", "bucket/lake;t=topsecret", "bucket/lake%3Bt=topsecret",
    )),
    *(f"abfs://{each}" for each in (
        f"container@{AZURE}/lake?sig=topsecret", f"container:topsecret@{AZURE}/lake",
        f"container%3Atopsecret@{AZURE}/lake", f"a@topsecret@{AZURE}/lake",
    )),
    "gs://bucket/lake?access_token=topsecret", "hdfs://user:topsecret@host:8020/lake",
]  # fmt: skip


@pytest.mark.parametrize("uri", CREDENTIALS)
def test_a_uri_that_could_hold_a_credential_is_refused_and_not_repeated(uri):
    for refuse in (
        check_uri,
        open_filesystem,
        lambda uri: Lake(uri).read("x"),
        lambda uri: Warehouse(uri).current(),
        lambda uri: Warehouse(uri).commit([failed("ads", DAY)]),
        lambda uri: query(Warehouse(uri), "from audits"),
    ):
        with pytest.raises(TerminalError) as caught:
            refuse(uri)
        assert SECRET not in str(caught.value)
        assert "environment" in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/lake",
        "s3://bucket/a b/zoë",
        "s3://bucket/lake?region=eu-west-1",
        "s3://bucket/lake?region=eu-west-1&scheme=http&endpoint_override=127.0.0.1:9000",
        "s3://bucket/lake?endpoint_override=http://127.0.0.1:9000",
        "gs://bucket/lake",
        "hdfs://host:8020/lake",
        "abfs://container@account.dfs.core.windows.net/lake",
    ],
)
def test_a_uri_without_one_is_taken(uri):
    assert check_uri(uri) == uri


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
def test_a_template_is_a_folder_of_all_days_and_a_file_of_each(template, folder, name):
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
def test_a_template_that_names_no_single_file_for_each_day_is_refused(template, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its words are looked at
        check_day_path(template)
    assert words in str(caught.value)


@pytest.mark.parametrize("address", ["models:/ads/3", "models:/ads@a b", "models:/@x", "ads@x"])
def test_an_address_is_a_name_and_an_alias(address):
    with pytest.raises(ValueError, match=r"write models:/NAME@\{day\}"):
        registry_address(address)
