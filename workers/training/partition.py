"""Label and features of a partition that nobody described: what a model may be trained on."""

import datetime as dt

import pyarrow as pa

from privcore.exceptions import InvalidInputError
from workers.labels.batches import distinct_values
from workers.labels.columns import SPLIT
from workers.labels.parquet import read_footer
from workers.labels.shards import find_partition
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, Label, LabelColumn

_MOST_CLASSES = 100


def describe_partition(
    lake: Lake, dataset: str, day: dt.date, column: str
) -> tuple[LabelColumn, tuple[Feature, ...]]:
    """Return the label with its classes in order, and every other column but `split` as a feature.

    Raises:
        InvalidInputError: there is no such column, or it holds no few classes, or a column is
            neither a number nor text.
        NotEvaluableError: there are no labels, or a file is damaged, or larger than what is read.
    """
    partition = find_partition(lake, dataset, day)
    schema: pa.Schema | None = None
    classes: set[Label] = set()
    for path in (partition.path(file.name) for file in partition.files):
        footer = read_footer(lake, path)
        schema = schema or footer.schema()
        if column not in footer.names:
            rule = f"the columns of {dataset} are {', '.join(footer.names)}"
            raise InvalidInputError("--label", column, rule)
        classes |= distinct_values(lake, path, column, most=_MOST_CLASSES)
    if not 2 <= len(classes) <= _MOST_CLASSES or any(isinstance(c, float) for c in classes):
        values = len(classes) if len(classes) <= _MOST_CLASSES else "more"
        rule = f"a label has 2 to {_MOST_CLASSES} classes, and this column has {values} values"
        raise InvalidInputError("--label", column, rule)
    fields = [field for field in schema or () if field.name not in {column, SPLIT}]
    return (
        LabelColumn(column=column, classes=tuple(sorted(classes, key=str)), state="secret"),
        tuple(_feature(field) for field in fields),
    )


def _feature(field: pa.Field) -> Feature:
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return Feature(name=field.name, kind="numeric")
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(is_text(kind) for is_text in text):
        return Feature(name=field.name, kind="categorical")
    rule = f"it is {field.type}: a feature is a number or text"
    raise InvalidInputError("feature", field.name, rule)
