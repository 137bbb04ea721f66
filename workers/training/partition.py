"""Label and features of a partition that nobody described: what a model may be trained on."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq

from privcore.exceptions import InvalidInputError
from workers.labels.columns import SPLIT
from workers.labels.shards import list_shards
from workers.lake.layout import Lake, labels_folder
from workers.lake.manifest import Feature, Label, LabelColumn

_MOST_CLASSES = 100


def describe_partition(
    lake: Lake, dataset: str, day: dt.date, column: str
) -> tuple[LabelColumn, tuple[Feature, ...]]:
    """Return the label with its classes in order, and every other column but `split` as a feature.

    Raises:
        InvalidInputError: there is no such column, or it holds no few classes, or a column is
            neither a number nor text.
    """
    folder = labels_folder(dataset, day)
    files = sorted({shard.file for shard in list_shards(lake, dataset, day)})
    schema: pa.Schema | None = None
    classes: set[Label] = set()
    for name in files:
        file = pq.ParquetFile(lake.open(f"{folder}/{name}"))
        schema = schema or file.schema_arrow
        if column not in file.schema_arrow.names:
            rule = f"the columns of {dataset} are {', '.join(file.schema_arrow.names)}"
            raise InvalidInputError("--label", column, rule)
        for group in range(file.num_row_groups):
            values = file.read_row_group(group, columns=[column])[column]
            classes |= {value for value in values.unique().to_pylist() if value is not None}
    if not 2 <= len(classes) <= _MOST_CLASSES or any(isinstance(c, float) for c in classes):
        rule = (
            f"a label has 2 to {_MOST_CLASSES} classes, and this column has {len(classes)} values"
        )
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
