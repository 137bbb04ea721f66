import pytest

from tests.support.dictionary import FILE, document
from workers.warehouse.sql import RELATIONS
from workers.warehouse.tables import TABLES


@pytest.fixture(scope="module")
def written():
    return document()


def test_the_documentation_is_what_the_code_says(written):
    assert FILE.read_text(encoding="utf-8") == written, "run make docs"


@pytest.mark.parametrize("name", RELATIONS)
def test_every_table_and_view_has_its_section(name, written):
    assert f"\n## {name}" in written


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_described_in_a_sentence(name, written):
    for column, field in TABLES[name].row.model_fields.items():
        assert field.description, column
        assert field.description.endswith("."), column
        assert "|" not in field.description, column
        assert f"| `{column}` |" in written
