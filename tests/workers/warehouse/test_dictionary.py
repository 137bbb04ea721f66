from tests.support.dictionary import FILE, document
from workers.warehouse.sql import RELATIONS
from workers.warehouse.tables import TABLES


def test_the_documentation_is_what_the_code_says_and_describes_all():
    written = document()
    assert FILE.read_text(encoding="utf-8") == written, "run make docs"
    for name in RELATIONS:
        assert f"\n## {name}" in written
    for table in TABLES.values():
        for column, field in table.row.model_fields.items():
            assert field.description, column
            assert field.description.endswith("."), column
            assert "|" not in field.description, column
            assert f"| `{column}` |" in written
