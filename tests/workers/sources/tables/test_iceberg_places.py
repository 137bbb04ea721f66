"""Places that an Iceberg table may lie at; attacks on them are in test_iceberg_metadata."""

import pytest

from workers.exceptions import NotEvaluableError
from workers.sources.tables.iceberg_places import place_of, properties_of, warehouse_of


@pytest.mark.parametrize(
    ("address", "warehouse", "found"),
    [
        ("s3://b/w/t", None, ("s3://b", "w/t")),
        ("s3a://b/w/t", None, ("s3://b", "w/t")),
        ("s3://b/w/t", "s3://b/w?region=eu-west-1", ("s3://b/w?region=eu-west-1", "t")),
        ("gs://b/t", None, ("gs://b", "t")),
        (
            "abfss://c@a.dfs.core.windows.net/t", None,
            ("abfs://c@a.dfs.core.windows.net", "t"),
        ),
        ("hdfs://name:8020/w/t", "hdfs://name:8020/w", ("hdfs://name:8020/w", "t")),
        ("file:///w/t", "/w", ("/w", "t")),
        ("/w/t", "file:///w", ("/w", "t")),
    ],
)  # fmt: skip
def test_a_bucket_or_a_place_below_the_warehouse_is_read(
    address: str, warehouse: str | None, found: tuple[str, str]
) -> None:
    assert place_of(address, warehouse) == found


@pytest.mark.parametrize("warehouse", [None, "/w", "hdfs://name:8020/w", "s3://b/w"])
def test_a_host_of_the_tables_choice_is_refused(warehouse: str | None) -> None:
    for address in ("hdfs://other:8020/w/t", "hdfs://name:8020/wx", "/wx/t", "s3://b:80/w/t"):
        with pytest.raises(NotEvaluableError, match="not below the catalogue's warehouse"):
            place_of(address, warehouse)


def test_a_catalogue_is_described_by_the_environment_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert properties_of("nobody") == {}
    for place, known in (("s3://b/w", "s3://b/w"), ("/w", "/w"), ("prod", None)):
        monkeypatch.setenv("PYICEBERG_CATALOG__NOBODY__WAREHOUSE", place)
        assert warehouse_of(properties_of("nobody")) == known
