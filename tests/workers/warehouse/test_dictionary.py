import pytest

from workers.warehouse.dictionary import FILE, document
from workers.warehouse.sql import RELATIONS
from workers.warehouse.tables import TABLES


def test_the_documentation_is_what_the_code_says() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), "run make docs"


@pytest.mark.parametrize("name", RELATIONS)
def test_every_table_and_view_has_its_section(name: str) -> None:
    assert f"\n## {name}" in document()


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_described_in_a_sentence(name: str) -> None:
    for column, field in TABLES[name].row.model_fields.items():
        assert field.description, column
        assert field.description.endswith("."), column
        assert "|" not in field.description, column
        assert f"| `{column}` |" in document()
