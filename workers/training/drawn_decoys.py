"""Labels to train on with decoys among them, drawn before training: `privaudit decoys`."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privcore.attacks import Decoys, draw_decoys
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch, NeededColumns, check_columns, commitment
from workers.labels.parquet import Footer, read_footer, read_row_group
from workers.labels.shards import find_partition
from workers.lake.checkpoints import (
    Checkpoint,
    probabilities,
    read_checkpoint,
)
from workers.lake.layout import LabelFile, Lake, check_name, labels_folder
from workers.lake.manifest import DecoyLabels, LabelColumn, Manifest

COLUMN = "decoy"
"""The column of the pairs' other labels."""

_PROXY_WITHIN_DAYS = 7


@dataclass(frozen=True, slots=True)
class DrawnDecoys:
    """Decoys as they were written, and the manifest's words for a model trained on them."""

    dataset: str
    proxy_day: dt.date
    records: int
    decoys: int
    telling: int
    manifest: DecoyLabels


def write_decoys(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    share: float,
    into: str | None = None,
    random: np.random.Generator,
) -> DrawnDecoys:
    """Copy a day's labels into another dataset, with decoys among the training records.

    Every column is kept; the label's holds what is to be trained on, `decoy` the pair's other label
    and null otherwise. Second labels are drawn from the model's newest earlier checkpoint, which
    also names dataset, label and classes.

    Args:
        lake: where the day's labels and the checkpoint are.
        model: whose labels they are.
        day: the day that is about to be trained on.
        share: of the training records that become decoys.
        into: the dataset to write; by default the model's, with "-decoys" behind its name.
        random: the auditor's coins; the trainer must not be able to foresee them.

    Raises:
        NotEvaluableError: there is no earlier checkpoint, labels are missing or bad, have a column
            `decoy` already, or `into` holds files of this day: a commitment is made once.
    """
    check_name("model", model)
    proxy_day = lake.proxy_day(model, day, within_days=_PROXY_WITHIN_DAYS)
    if proxy_day is None:
        raise NotEvaluableError(
            Reason.MISSING_PROXY,
            f"There is no checkpoint of {model} in the {_PROXY_WITHIN_DAYS} days before {day} to "
            "draw second labels from.",
        )
    proxy = read_checkpoint(lake, model, proxy_day)
    into = f"{proxy.manifest.dataset}-decoys" if into is None else into
    folder = labels_folder(into, day)
    # A link in its place would have them written elsewhere, and files that lie there would be
    # committed to as if they had been drawn.
    if lake.files_below(folder):
        raise NotEvaluableError(
            Reason.DECOYS_CHANGED,
            f"{folder} holds files already, and may be committed to: name another dataset.",
        )
    label = proxy.manifest.label
    partition = find_partition(lake, proxy.manifest.dataset, day)
    counts = np.zeros(3, dtype=np.int64)
    for file in partition.files:
        footer = _footer(lake, partition.path(file.name), file, proxy.manifest)
        place, columns = f"{folder}/{file.name}", footer.names
        lake.files.create_dir(place.rpartition("/")[0], recursive=True)
        with pq.ParquetWriter(place, _schema(footer, label), filesystem=lake.files) as writer:
            for index in range(len(footer.groups)):
                path = partition.path(file.name)
                table = read_row_group(lake, path, footer, index, columns).table(columns)
                batch = Batch(table, path, (file.name, index, 0))
                drawn, train = _drawn(batch, proxy, share=share, random=random)
                writer.write_table(_with_decoys(table, label, drawn).cast(writer.schema))
                chosen = drawn.others >= 0
                telling = chosen & (drawn.labels != drawn.others)
                counts += train.sum(), chosen.sum(), telling.sum()
    lake.complete(folder)
    written = [file.name for file in partition.files]
    if [file.name for file in find_partition(lake, into, day).files] != written:
        raise NotEvaluableError(
            Reason.DECOYS_CHANGED,
            f"{folder} got files of somebody else while it was written: name another dataset.",
        )
    digest = commitment(lake, into, day, label=label, column=COLUMN)
    records, decoys, telling = (int(count) for count in counts)
    manifest = DecoyLabels(column=COLUMN, commitment=digest)
    return DrawnDecoys(into, proxy_day, records, decoys, telling, manifest)


def _footer(lake: Lake, path: str, listed: LabelFile, manifest: Manifest) -> Footer:
    """Return the footer of a file whose every column can be copied."""
    names = read_footer(lake, path, listed=listed).names
    footer = read_footer(lake, path, names, listed=listed)
    check_columns(footer, path, NeededColumns(manifest.label, manifest.features))
    if COLUMN in names:
        raise NotEvaluableError(
            Reason.LABEL_INVALID, f"{path} has a column {COLUMN!r} already: rename it."
        )
    twice = {name for name in names if names.count(name) > 1}
    if strange := sorted({*twice, *footer.nested_text}):
        raise NotEvaluableError(
            Reason.FEATURE_INVALID,
            f"{path} has several columns {strange[0]!r}, or text in lists there, which is not "
            "copied: leave the column out.",
        )
    return footer


def _schema(footer: Footer, label: LabelColumn) -> pa.Schema:
    """Return the copy's columns: with plain text, which is what readers of the lake take it for."""
    schema = footer.schema()
    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(place, field.with_type(field.type.value_type))
    return schema.append(pa.field(COLUMN, schema.field(label.column).type))


def _drawn(
    batch: Batch,
    proxy: Checkpoint,
    *,
    share: float,
    random: np.random.Generator,
) -> tuple[Decoys, NDArray[np.bool_]]:
    """Return a row group's decoys, none of which is held out, and who is trained on."""
    manifest = proxy.manifest
    labels, bad = batch.labels(manifest.label)
    bad.check(0)
    train, _ = batch.arms()
    believed = probabilities(proxy, batch.features(manifest))
    drawn = draw_decoys(labels, believed, share=share, random=random)
    unseen = ~train
    return (
        Decoys(np.where(unseen, labels, drawn.labels), np.where(unseen, -1, drawn.others)),
        train,
    )


def _with_decoys(table: pa.Table, label: LabelColumn, drawn: Decoys) -> pa.Table:
    """Return the table with the labels to train on, and the others beside them."""
    place = table.schema.get_field_index(label.column)
    kind = table.schema.field(place).type
    words = pa.array([str(int(c)) if isinstance(c, bool) else str(c) for c in label.classes])

    def values(indices: NDArray[np.int64]) -> pa.Array:
        plain = words.take(pa.array(indices, mask=indices < 0))
        if pa.types.is_boolean(kind):
            plain = plain.cast(pa.int8())
        return plain.cast(kind)

    return table.set_column(place, table.schema.field(place), values(drawn.labels)).append_column(
        COLUMN, values(drawn.others)
    )
