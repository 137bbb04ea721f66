"""Every hostile input, each for the eighth model of a night."""

import base64
import functools
import hashlib
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption

from tests.hostile.columns import MAKERS
from tests.hostile.night import EIGHTH, Hostile, own_labels, with_column
from tests.support.lake import (
    DAY,
    declared,
    edit_manifest,
    label_path,
    manifest_of,
    model_path,
)
from workers.labels.columns import SPLIT
from workers.lake.layout import Lake

OWN = "eighth-labels"
_COLUMNS = {
    "label": ("late_too", ""),
    "number": ("extra_number", ""),
    "category": ("extra_word", ""),
    "slice": ("group", '[models.plan]\nslices = ["group"]\n'),
    "unit": ("person", '[models.plan]\nprivacy_unit = "person"\n'),
}
PLACES = (*_COLUMNS, SPLIT)
"""What a hostile column can be put in the place of."""


def inputs_by_kind() -> dict[str, list[Hostile]]:
    """Return them all, by the words of the table in docs/evidence/reliability.md."""
    return {
        "hostile columns, each in one of their places": _columns(),
        "manifests: nesting, encodings, sizes, wrong fields": list(hostile_manifests()),
        "declarations: arithmetic without end, nonsense": list(hostile_declarations()),
        "features that tell who is judged": list(hostile_features()),
        "files and folders: loops, pipes, links, names": list(hostile_folders()),
        "tables: columns twice, encrypted, none": list(hostile_tables()),
    }


def _columns() -> list[Hostile]:
    return [_column(name, PLACES[number % len(PLACES)]) for number, name in enumerate(MAKERS)]


def _column(name: str, place: str) -> Hostile:
    def apply(lake: Lake) -> str:
        if place == SPLIT:
            own_labels(lake)
            with_column(lake, SPLIT, MAKERS[name], dataset=OWN)
            return ""
        column, more = _COLUMNS[place]
        with_column(lake, column, MAKERS[name])
        return more

    return Hostile(f"{place}-{name}", apply, harmless=place not in {"label", SPLIT})


def hostile_manifests() -> Iterator[Hostile]:
    """Yield manifests that are no manifests."""

    def raw(name: str, content: bytes) -> Hostile:
        def apply(lake: Lake) -> None:
            (model_path(lake, EIGHTH) / "manifest.json").write_bytes(content)

        return Hostile(f"manifest-{name}", apply)

    def field(name: str, **changes: Any) -> Hostile:
        return Hostile(f"manifest-{name}", lambda lake: edit_manifest(lake, EIGHTH, DAY, **changes))

    for depth in (100, 1_000, 100_000):
        yield raw(f"lists-{depth}-deep", b"[" * depth + b"]" * depth)
        yield raw(f"objects-{depth}-deep", b'{"a":' * depth + b"1" + b"}" * depth)
        yield raw(f"open-{depth}-deep", b'{"dataset":' + b"[" * depth)
        nested: Any = []
        for _ in range(min(depth, 900)):
            nested = [nested]
        mechanism = {"name": "pure", "parameters": {"epsilon": nested}}
        yield field(f"parameters-{depth}-deep", privacy=declared() | {"mechanism": mechanism})
    for name, content in {
        "empty": b"", "null": b"null", "number": b"1", "text": b'"x"', "list": b"[]",
        "zeros": b"\0" * 100, "byte-order-mark": b"\xef\xbb\xbf{}", "utf-16": "{}".encode("utf-16"),
        "not-utf-8": b'{"dataset": "\xff\xfe"}', "cut-off": b'{"schema_version": 1, "model": "eig',
        "huge-number": b'{"schema_version": ' + b"9" * 5_000 + b"}",
        "nan": b'{"schema_version": NaN}', "infinite": b'{"dataset": Infinity}',
        "surrogate": b'{"dataset": "\\ud800"}',
        "many-keys": b'{"a": 1' + b', "b": 1' * 100_000 + b"}",
        "huge": b" " * (5 << 20),
    }.items():  # fmt: skip
        yield raw(name, content)
    for name, dataset in {
        "dots": "..", "up": "../x", "long": "x" * 5_000, "zero": "a\0b", "list": ["flights"],
        "number": 7, "nothing": None, "empty": "", "object": {}, "surrogate": "\ud800",
        "unknown": "nobody-writes-these",
    }.items():  # fmt: skip
        yield field(f"dataset-{name}", dataset=dataset)
    for name, changes in {
        "classes-one": {"label": {"column": "late_too", "classes": [0]}},
        "classes-same": {"label": {"column": "late_too", "classes": [0, 0]}},
        "classes-huge": {"label": {"column": "late_too", "classes": [0, 10**400]}},
        "classes-of-lists": {"label": {"column": "late_too", "classes": [[0], [1]]}},
        "label-control": {"label": {"column": "late\x1b]0;x\x07", "classes": [0, 1]}},
        "day-beyond": {"day": "99999-01-01"},
        "trained-forever": {
            "trained_on": {"first": "0001-01-01", "last": "9999-12-31", "split": "holdout"}
        },
        "features-none": {"features": []},
        "features-many": {"features": [{"name": f"x{n}", "kind": "numeric"} for n in range(9_000)]},
        "features-same": {"features": [{"name": "delay", "kind": "numeric"}] * 3},
        "sha-of-nothing": {"sha256": hashlib.sha256(b"").hexdigest()},
        "sha-wrong": {"sha256": "x" * 64},
        "file-itself": {"file": "manifest.json"},
    }.items():
        yield field(name, **changes)


def hostile_declarations() -> Iterator[Hostile]:
    """Yield declarations whose arithmetic has no end, or none that makes sense."""
    for deviation in (1e-3, 1e-6, 1e-300, 5e-324):
        yield _mechanism(f"laplace-{deviation:g}", "laplace_one_hot", {"deviation": deviation})
    sgd = {"sampling_rate": 0.01, "steps": 1000, "neighbors": "replace"}
    for noise in (1e-2, 1e-3, 1e-200):
        yield _mechanism(f"dp-sgd-{noise:g}", "dp_sgd", sgd | {"noise_multiplier": noise})
    yield _mechanism("dp-sgd-forever", "dp_sgd", sgd | {"noise_multiplier": 1.0, "steps": 10**15})
    for queries in (10**9, 10**12, 10**30, 10**400):
        parameters = {"scale": 40.0, "queries": queries}
        yield _mechanism(f"pate-{len(str(queries))}-digits", "pate_laplace", parameters)
    yield _mechanism("gaussian-none", "gaussian", {"noise_multiplier": 1e-300})
    yield _mechanism(
        "response-sure", "randomized_response", {"keep_probability": 1.0, "classes": 2}
    )
    yield _mechanism("response-text", "randomized_response", {"epsilon": "1", "classes": 2})
    yield _mechanism("unknown", "wishful_thinking", {})
    yield _mechanism(
        "prior-of-many", "randomized_response_with_prior",
        {"epsilon": 1.0, "prior_from_outside": [1e-5] * 50_000},
    )  # fmt: skip
    yield from _compositions()


def _compositions() -> Iterator[Hostile]:
    part = {"name": "laplace_one_hot", "parameters": {"deviation": 3.0}}
    for times in (10**9, 10**18, 10**400):
        parameters = {"mechanisms": [part], "times": times}
        yield _mechanism(f"composed-{len(str(times))}-digits", "composition", parameters)
    for parts in (2_000, 20_000):
        yield _mechanism(f"composed-of-{parts}", "composition", {"mechanisms": [part] * parts})
    for depth in (50, 250):
        folded: dict[str, Any] = part
        for _ in range(depth):
            folded = {"name": "composition", "parameters": {"mechanisms": [folded]}}
        # What is folded 50 times is odd, and still one mechanism.
        yield _mechanism(
            f"folded-{depth}-deep", "composition", folded["parameters"], harmless=depth == 50
        )


def _mechanism(
    name: str, kind: str, parameters: dict[str, Any], *, harmless: bool = False
) -> Hostile:
    given = declared(50.0, delta=1e-6)
    given["mechanism"] = {"name": kind, "parameters": parameters}

    def apply(lake: Lake) -> None:
        edit_manifest(lake, EIGHTH, DAY, privacy=given)

    return Hostile(f"declares-{name}", apply, harmless=harmless)


def hostile_features() -> Iterator[Hostile]:
    """Yield features that would tell the model which rows are judged, or how."""
    for column in (SPLIT, "late_too"):

        def apply(lake: Lake, column: str = column) -> None:
            features = manifest_of(lake, EIGHTH, DAY)["features"]
            more = [*features, {"name": column, "kind": "categorical"}]
            edit_manifest(lake, EIGHTH, DAY, features=more)

        yield Hostile(f"feature-{column}", apply)
    yield Hostile("feature-unit", lambda _: '[models.plan]\nprivacy_unit = "extra_word"\n')


def hostile_folders() -> Iterator[Hostile]:
    """Yield what a file system holds besides plain files."""

    def model(name: str, change: Callable[[pathlib.Path], Any]) -> Hostile:
        def apply(lake: Lake) -> None:
            change(model_path(lake, EIGHTH))

        return Hostile(f"model-{name}", apply)

    def labels(name: str, change: Callable[[pathlib.Path], Any], **more: Any) -> Hostile:
        def apply(lake: Lake) -> None:
            own_labels(lake)
            change(label_path(lake, OWN).parent)

        return Hostile(f"labels-{name}", apply, **more)

    def loop(path: pathlib.Path) -> None:
        _remove(path)
        path.symlink_to(path.name)

    def link(path: pathlib.Path, to: str) -> None:
        _remove(path)
        path.symlink_to(to)

    def pipe(path: pathlib.Path) -> None:
        _remove(path)
        os.mkfifo(path)

    def folder(path: pathlib.Path) -> None:
        _remove(path)
        path.mkdir()

    yield model("folder-is-a-loop", loop)
    yield model("folders-are-a-loop", lambda day: loop(day.parent))
    yield model("folder-is-a-file", lambda day: (_remove(day), day.write_bytes(b"")))
    yield model("folder-leads-out", lambda day: link(day, "/etc"))
    yield model("folder-gone", lambda day: _remove(day.parent))
    for name in ("manifest.json", "model.cbm"):
        kind = name.partition(".")[0]
        yield model(f"{kind}-loop", lambda day, name=name: loop(day / name))  # type: ignore[misc]
        yield model(f"{kind}-pipe", lambda day, name=name: pipe(day / name))  # type: ignore[misc]
        yield model(f"{kind}-folder", lambda day, name=name: folder(day / name))  # type: ignore[misc]
        yield model(
            f"{kind}-out",
            lambda day, name=name: link(day / name, "/etc/passwd"),  # type: ignore[misc]
        )
        yield model(
            f"{kind}-endless",
            lambda day, name=name: link(day / name, "/dev/zero"),  # type: ignore[misc]
        )
    yield model("success-is-a-loop", lambda day: loop(day / "_SUCCESS"))
    yield model("success-is-a-folder", lambda day: folder(day / "_SUCCESS"))
    yield labels("folder-is-a-loop", loop)
    yield labels("folders-are-a-loop", lambda day: loop(day.parent))
    yield labels("folder-is-a-file", lambda day: (_remove(day), day.write_bytes(b"")))
    yield labels("success-is-a-loop", lambda day: loop(day / "_SUCCESS"))
    yield labels("file-is-a-loop", lambda day: loop(day / "part-00000.parquet"))
    yield labels("file-is-a-pipe", lambda day: pipe(day / "part-00000.parquet"))
    yield labels("file-is-a-folder", lambda day: folder(day / "part-00000.parquet"))
    yield labels("file-leads-out", lambda day: link(day / "part-00000.parquet", "/etc/passwd"))
    yield labels("file-is-endless", lambda day: link(day / "part-00000.parquet", "/dev/zero"))
    yield labels(
        "file-name-is-not-utf-8",
        lambda day: shutil.copy(
            day / "part-00000.parquet", os.fsencode(day) + b"/part-\xff.parquet"
        ),
    )
    yield labels(
        "file-name-moves-the-cursor",
        lambda day: shutil.copy(day / "part-00000.parquet", day / "part-\x1b[2J\n.parquet"),
        harmless=True,
    )
    yield labels("file-empty", lambda day: (day / "part-00001.parquet").write_bytes(b""))
    yield labels("file-is-text", lambda day: (day / "x.parquet").write_text("PAR1 PAR1"))


def hostile_tables() -> Iterator[Hostile]:
    """Yield Parquet files that are well made, and not meant well."""

    def table(name: str, write: Callable[[pathlib.Path], Any], **more: Any) -> Hostile:
        def apply(lake: Lake) -> None:
            own_labels(lake)
            write(label_path(lake, OWN))

        return Hostile(f"table-{name}", apply, **more)

    def twice(column: str) -> Callable[[pathlib.Path], None]:
        def write(path: pathlib.Path) -> None:
            content = pq.read_table(path)
            pq.write_table(content.append_column(column, content[column]), path)

        return write

    for column in ("late_too", SPLIT, "extra_number", "extra_word"):
        yield table(f"{column}-twice", twice(column))
        yield table(f"{column}-encrypted", functools.partial(_encrypt, column=column))
    yield table("split-of-other-case", lambda path: _rewrite(path, split=pl.lit("Train")))
    yield table("one-row", lambda path: pl.read_parquet(path).head(1).write_parquet(path))
    yield table(
        "no-columns", lambda path: pq.write_table(pa.table({"x": pa.array([1])}).drop(["x"]), path)
    )
    yield table(
        "name-of-control-characters",
        lambda path: pl.read_parquet(path).rename({SPLIT: "\x1b[31msplit"}).write_parquet(path),
    )


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _rewrite(path: pathlib.Path, **columns: pl.Expr) -> None:
    pl.read_parquet(path).with_columns(**columns).write_parquet(path)


class _Keys(encryption.KmsClient):
    """Gives keys to whoever asks."""

    def __init__(self, _configuration: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _master: str) -> bytes:
        return base64.b64decode(wrapped)


def _encrypt(path: pathlib.Path, *, column: str) -> None:
    factory = encryption.CryptoFactory(_Keys)
    properties = factory.file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="footer", column_keys={"column": [column]}, plaintext_footer=True
        ),
    )
    table = pq.read_table(path)
    pq.write_table(table, path, encryption_properties=properties)
