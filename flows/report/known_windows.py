"""Windows that an earlier report derived, so that a night derives those of its own audits alone.

What the nights up to one prove together depends on these nights' records, which never change, and
on the code. So beside the pages lies what was derived, by a digest of each audit's history, sealed
as the list of pages is (`flows.report.drawn`): a file that is lost, forged or of other code costs
time, and an earlier one proves nothing false. Commands and alerts read it, too.
"""

import functools
import hashlib
import hmac
import io
import pathlib
from collections.abc import Sequence

import polars as pl

from flows.files import read_plain, replace_file
from flows.report.drawn import code_digest
from workers.secret_files import state_key
from workers.warehouse.night_columns import EPSILON_STANDING, OF_WINDOWS
from workers.warehouse.store import COUNTED_WITH_OTHERS, Warehouse
from workers.warehouse.with_windows import Windows

WINDOWS = ".windows"
_SEAL_BYTES = 32
_HISTORY = "history"
_HISTORY_BYTES = 16
_OF_HISTORY = ("audit_id", "record_digest", "model", "day", "secret")


def stored_windows(folder: str | pathlib.Path) -> Windows:
    """Return `epsilon_windows` of some current audits, which derives what a report's folder lacks.

    So every command and alert reads it that needs the windows of a night.
    """
    return functools.partial(windows_beside, folder, state_key("pages"))


class NightWindows:
    """`stored_windows` that derive each night once: a night's end asks for its own several times.

    Attributes:
        derived: windows with their histories, which the report's folder lacked.
    """

    def __init__(self, folder: str | pathlib.Path) -> None:
        self._folder, self._key = folder, state_key("pages")
        self.derived: list[pl.DataFrame] = []

    def __call__(self, warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
        """Return `epsilon_windows` of some current audits."""
        return windows_beside(self._folder, self._key, warehouse, audits, derived=self.derived)


def lost_nights(folder: str | pathlib.Path, warehouse: Warehouse) -> pl.DataFrame:
    """Return the newest night of each model that the folder knows and the warehouse does not hold.

    Columns `model` and `day`. Audits are never deleted but for old ones, so that the settings then
    name another warehouse, or somebody deleted audits in it.
    """
    key = state_key("pages")
    sealed = None if key is None else _read(pathlib.Path(folder) / WINDOWS, key)
    if sealed is None:
        return pl.DataFrame(schema={"model": pl.String, "day": pl.Date})
    newest = (
        sealed.select("model", "day", "audit_id").sort("day").group_by("model").last().collect()
    )
    named = pl.col("audit_id").is_in(newest["audit_id"].implode())
    there = warehouse.collect(warehouse.scan("audits").filter(named).select("audit_id"))
    return newest.join(there, on="audit_id", how="anti").select("model", "day").sort("model")


def known_windows(root: pathlib.Path, key: bytes, derived: Sequence[pl.DataFrame] = ()) -> Windows:
    """Return `epsilon_windows` of all current audits, which derives what the folder lacks.

    `derived` are windows with their histories that this process has derived (`NightWindows`).
    """
    return functools.partial(_windows, root / WINDOWS, key, derived)


def windows_beside(
    folder: str | pathlib.Path,
    key: bytes | None,
    warehouse: Warehouse,
    audits: pl.DataFrame,
    *,
    derived: list[pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Return `epsilon_windows` of some current audits, which derives what the folder lacks.

    Nothing is written, since whoever reads may lack the right to, and knows a part alone. What is
    `derived` is looked for there, too, and then added to it.
    """
    lacking = audits.filter(COUNTED_WITH_OTHERS)  # others have none
    sealed = None if key is None else _read(pathlib.Path(folder) / WINDOWS, key)
    known = [*([] if sealed is None else [sealed]), *(one.lazy() for one in derived or ())]
    histories = there = None
    if known or derived is not None:
        models = audits["model"].unique()
        every = warehouse.current(
            every_secret=True, models=models, columns=_OF_HISTORY, in_order=False
        )
        firsts = warehouse.first_audits(models)
        histories = _histories(every, asked=lacking["audit_id"], firsts=firsts)
        there = _fitting(known, histories)
        lacking = lacking if there is None else lacking.join(there, on="audit_id", how="anti")
        if there is not None and not lacking.height:
            return there.drop(_HISTORY)
    from workers.warehouse.night_windows import epsilon_windows  # noqa: PLC0415  # numba takes long

    fresh = epsilon_windows(warehouse, lacking)
    if derived is not None and histories is not None and fresh.height:
        derived.append(_kept(fresh.join(histories, on="audit_id", how="left")))
    return fresh if there is None else pl.concat([there.drop(_HISTORY), fresh])


def _fitting(known: Sequence[pl.LazyFrame], histories: pl.DataFrame) -> pl.DataFrame | None:
    """Return known windows of audits whose history is the same; None where nothing is known."""
    if not known:
        return None
    asked = pl.col("audit_id").is_in(histories["audit_id"].implode())
    some = pl.concat([one.filter(asked).collect() for one in known])
    same = some.join(histories, on=["audit_id", _HISTORY], how="semi")
    return same.unique("audit_id", keep="first", maintain_order=True)


def _kept(windows: pl.DataFrame) -> pl.DataFrame:
    """Return what is worth keeping.

    Rows that contradict each other derived nothing; whoever mends them wants them read again.
    """
    return windows.filter(pl.col(EPSILON_STANDING).is_not_null(), pl.col(_HISTORY).is_not_null())


def _windows(
    path: pathlib.Path,
    key: bytes,
    derived: Sequence[pl.DataFrame],
    warehouse: Warehouse,
    audits: pl.DataFrame,
) -> pl.DataFrame:
    """Return the windows of `audits`, the current ones of every model and secret."""
    from workers.warehouse.night_windows import epsilon_windows  # noqa: PLC0415  # numba takes long

    audits = audits.select(OF_WINDOWS)
    firsts = warehouse.first_audits(audits["model"].unique())
    histories = _histories(audits, asked=audits["audit_id"], firsts=firsts)
    sealed = _read(path, key)
    known = None if sealed is None else sealed.collect()
    every = [*([] if known is None else [known]), *derived]
    there = _fitting([one.lazy() for one in every], histories)
    wanted = audits if there is None else audits.join(there, on="audit_id", how="anti")
    fresh = epsilon_windows(warehouse, wanted, current=audits).join(
        histories, on="audit_id", how="left"
    )
    both = fresh if there is None else pl.concat([there, fresh])
    kept = _kept(both)
    if fresh.height or derived or known is None or kept.height < known.height:
        _write(path, key, kept)
    return both.drop(_HISTORY)


def _histories(
    audits: pl.DataFrame, *, asked: pl.Series, firsts: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return the digest of each asked audit's history: its model's and secret's records up to it.

    None from a record on that has no digest of its own. `firsts` are the days' first audits, which
    a withdrawal may change.
    """
    lazy, first = audits.lazy(), pl.lit("")
    if firsts is not None and not firsts.is_empty():
        key, first = ("model", "day", "secret"), pl.col("first").fill_null("")
        named = firsts.group_by(key).agg(first=pl.col("audit_id").sort().str.join(" "))
        lazy = lazy.join(named.lazy(), on=key, how="left")
    lengths = [pl.col(name).str.len_bytes() for name in ("audit_id", "record_digest")]
    nights = (
        lazy.select(
            "audit_id", "model", "secret", "day",
            # With lengths in front no two pairs are one text; null where one of both is.
            record=pl.concat_str(*lengths, "audit_id", "record_digest", first, separator=" "),
            asked=pl.col("audit_id").is_in(asked.implode()),
        )
        .sort("day")
        .group_by("model", "secret")
        .agg("record", places=pl.col("asked").arg_true(), ids=pl.col("audit_id").filter("asked"))
        .collect()
    )  # fmt: skip
    digests: dict[str, bytes] = {}
    for records, places, ids in nights.select("record", "places", "ids").iter_rows():
        chain, done = hashlib.blake2b(digest_size=_HISTORY_BYTES), 0
        whole = records.index(None) if None in records else len(records)
        for audit_id, place in zip(ids, places, strict=True):
            if place >= whole:
                break
            chain.update("".join(records[done : place + 1]).encode())
            digests[audit_id], done = chain.digest(), place + 1
    return pl.DataFrame(
        {"audit_id": list(digests), _HISTORY: list(digests.values())},
        schema={"audit_id": pl.String, _HISTORY: pl.Binary},
    )


def _read(path: pathlib.Path, key: bytes) -> pl.LazyFrame | None:
    content = read_plain(path)
    if content is None:
        return None
    seal, rows = content[:_SEAL_BYTES], content[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(rows, key)):
        return None
    return pl.scan_parquet(io.BytesIO(rows))


def _write(path: pathlib.Path, key: bytes, windows: pl.DataFrame) -> None:
    """Replace what is known."""
    stream = io.BytesIO()
    windows.write_parquet(stream)
    rows = stream.getvalue()
    replace_file(path, _seal(rows, key) + rows)


def _seal(rows: bytes, key: bytes) -> bytes:
    return hmac.new(key, b"windows" + code_digest().encode() + rows, "sha256").digest()
