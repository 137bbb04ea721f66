"""A remark where labels that accuse were written after the model that they accuse."""

import datetime as dt

from workers.labels.shards import Partition
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.secrets import checkpoints_of
from workers.sources.source import Source

_NAME_CHARACTERS = 80


def written_since(source: Source, partition: Partition) -> tuple[Remark, ...]:
    """Return that files of a violated day are newer than the target's file, or nothing.

    Whoever may write the labels can make an innocent model look right on training rows alone: by
    other labels of the holdout, or fewer rows of it, and no count of a model's file shows that. No
    verdict rests on these times, as files are copied and written anew for other reasons, too.
    """
    models = checkpoints_of(source)
    if models is None or not models.target.written_ns:
        return ()
    later = [file for file in partition.files if file.changed_ns > models.target.written_ns]
    if not later:
        return ()
    newest = max(later, key=lambda file: file.changed_ns)
    name = repr(newest.name[:_NAME_CHARACTERS])
    said = (
        f"{len(later):,} of {len(partition.files):,} label files were written after the target's "
        f"file ({_at(models.target.written_ns)}), the last one, {name}, "
        f"at {_at(newest.changed_ns)}. Labels or rows that somebody changed after training, also "
        "in the holdout, make an innocent model look right on training rows alone. Unless the same "
        "rows were only written anew, compare them with those that training read, before the "
        "bound is believed."
    )
    return remarked(RemarkKind.LABELS_WRITTEN_SINCE, said)


def _at(moment_ns: int) -> str:
    return f"{dt.datetime.fromtimestamp(moment_ns / 1e9, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
