"""Words of the column `split` other than train and holdout, for the sentence that refuses it."""

from privcore.exceptions import is_failure
from workers.labels.columns import HOLDOUT, SPLIT, TRAIN, Batch
from workers.labels.parquet import read_footer, read_row_group
from workers.labels.shards import Partition
from workers.lake.layout import Lake

_ROWS = 100_000
_COMMON = {"null", "training", "test", "testing", "valid", "validation", "val", "dev", "eval"}
_COMMON |= {"evaluation", "hold-out", "hold_out", "hold out", TRAIN, HOLDOUT}
"""Words that other people use for splits, in small letters. What else stands there may be of a
person (a column under the wrong name), so the sentence, which is stored, only counts it."""


def other_words(root: Lake, partition: Partition) -> str:
    """Return " They say ..." of rows of neither split, by the first rows; "" where none says so.

    Whatever goes wrong in reading them says nothing, since another sentence is under way.
    """
    try:
        path = partition.path(partition.files[0].name)
        group = read_row_group(root, path, read_footer(root, path, [SPLIT]), 0, [SPLIT])
        table = next(iter(group.batches([SPLIT], rows=_ROWS)))
        column = Batch(table, path, (path, 0, 0)).column(SPLIT)
        found = sorted({"null" if word is None else str(word) for word in column.unique()})
    except BaseException as error:
        if not is_failure(error):
            raise
        return ""
    others = [word for word in found if word not in {TRAIN, HOLDOUT}]
    if not others:
        return ""
    named = [repr(word) for word in others if word.lower() in _COMMON]
    rest = len(others) - len(named)
    if rest:
        named.append(f"{rest} other value{'s' if rest > 1 else ''}")
    return f" They say {', '.join(named)}."
