"""The commitment to decoy labels: a digest of what is trained on, from before training."""

import datetime as dt
from collections.abc import Mapping

from workers.labels.columns import SPLIT
from workers.labels.content_digest import ContentDigest
from workers.labels.parquet import read_footer, read_row_group
from workers.labels.shards import find_partition
from workers.lake.layout import Lake
from workers.lake.manifest import LabelColumn


def committed(
    file: str, row_group: int, digests: Mapping[str, bytes], *, label: str, column: str
) -> ContentDigest:
    """Return what one row group adds to a commitment: label, other label and split, as stored."""
    parts = [digests.get(name, b"") for name in (label, column, SPLIT)]
    return ContentDigest.of("decoys", file, row_group, *parts)


def commitment(lake: Lake, dataset: str, day: dt.date, *, label: LabelColumn, column: str) -> str:
    """Return the digest that a manifest commits to: of a partition as it lies in the lake."""
    wanted = (label.column, column, SPLIT)
    partition = find_partition(lake, dataset, day)
    total = ContentDigest()
    for name in (file.name for file in partition.files):
        path = partition.path(name)
        footer = read_footer(lake, path, wanted)
        for index in range(len(footer.groups)):
            digests = read_row_group(lake, path, footer, index, wanted).digests
            total += committed(name, index, digests, label=label.column, column=column)
    return total.hexdigest()
