"""Every hostile input, each for the eighth model of a night."""

import base64
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption

from tests.hostile.columns import MAKERS
from tests.hostile.night import EIGHTH, Hostile, own_labels, with_column
from tests.support.lake import DAY, declared, edit_manifest, label_path, model_path
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
        "declarations: arithmetic without end, nonsense": list(hostile_declarations()),
        "files and folders: loops, a file for a folder, names": list(hostile_folders()),
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


def hostile_declarations() -> Iterator[Hostile]:
    """Yield declarations whose arithmetic has no end, or none that makes sense."""
    yield _mechanism("laplace-5e-324", "laplace_one_hot", {"deviation": 5e-324})
    sgd = {"sampling_rate": 0.01, "noise_multiplier": 1.0, "neighbors": "replace"}
    yield _mechanism("dp-sgd-forever", "dp_sgd", sgd | {"steps": 10**15})
    for digits in (13, 401):
        parameters = {"scale": 40.0, "queries": 10 ** (digits - 1)}
        yield _mechanism(f"pate-{digits}-digits", "pate_laplace", parameters)
    yield _mechanism("response-text", "randomized_response", {"epsilon": "1", "classes": 2})
    yield _mechanism("unknown", "wishful_thinking", {})
    yield _mechanism(
        "prior-of-many", "randomized_response_with_prior",
        {"epsilon": 1.0, "prior_from_outside": [1e-5] * 50_000},
    )  # fmt: skip
    part = {"name": "laplace_one_hot", "parameters": {"deviation": 3.0}}
    many = {"mechanisms": [part], "times": 10**18}
    yield _mechanism("composed-19-digits", "composition", many)
    yield _mechanism("composed-of-20000", "composition", {"mechanisms": [part] * 20_000})
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
        shutil.rmtree(path)
        path.symlink_to(path.name)

    yield model("folders-are-a-loop", lambda day: loop(day.parent))
    yield model("folder-is-a-file", lambda day: (shutil.rmtree(day), day.write_bytes(b"")))
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


def hostile_tables() -> Iterator[Hostile]:
    """Yield Parquet files that are well made, and not meant well."""

    def table(name: str, write: Callable[[pathlib.Path], Any], **more: Any) -> Hostile:
        def apply(lake: Lake) -> None:
            own_labels(lake)
            write(label_path(lake, OWN))

        return Hostile(f"table-{name}", apply, **more)

    def split_twice(path: pathlib.Path) -> None:
        content = pq.read_table(path)
        pq.write_table(content.append_column(SPLIT, content[SPLIT]), path)

    yield table("split-twice", split_twice)
    yield table("late_too-encrypted", _encrypt)
    yield table(
        "no-columns", lambda path: pq.write_table(pa.table({"x": pa.array([1])}).drop(["x"]), path)
    )


class _Keys(encryption.KmsClient):
    """Gives keys to whoever asks."""

    def __init__(self, _configuration: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _master: str) -> bytes:
        return base64.b64decode(wrapped)


def _encrypt(path: pathlib.Path) -> None:
    factory = encryption.CryptoFactory(_Keys)
    properties = factory.file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="footer", column_keys={"column": ["late_too"]}, plaintext_footer=True
        ),
    )
    table = pq.read_table(path)
    pq.write_table(table, path, encryption_properties=properties)
