"""Files with some bytes changed, and the audit of one."""

import hashlib
import pathlib
import random
from typing import Any

from tests.support.audits import recorded
from tests.support.lake import DAY, EVE, declared, edit_manifest, label_path, label_rows, put_model
from workers.labels.shards import write_labels
from workers.lake.layout import Lake
from workers.plan import Plan

KINDS = ("labels", "model")
PLAN = Plan(repetitions=1, minimum_records=50, minimum_control_records=10, slices=("city",))
SECONDS = 10
"""How long the first reading of a model file may take here: some have no end."""
_ROWS = 120


def make_lake(folder: pathlib.Path) -> Lake:
    """Write a lake of one model."""
    lake = Lake(str(folder / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(_ROWS, seed=seed, holdout=0.4)
        write_labels(lake, "flights", day, rows.to_arrow(), row_group_size=50)
        put_model(lake, day, privacy=declared())
    return lake


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return a file as a bad disk, a bad writer or a bad person leaves it."""
    changed = bytearray(content)
    place = chance.randrange(len(changed))
    kind = chance.randrange(6)
    if kind <= 2:  # some bytes, in the metadata as often as in the data
        tail = min(len(changed), 3000)
        for _ in range(chance.choice([1, 1, 2, 8])):
            spot = chance.randrange(len(changed))
            if chance.random() < 0.5:
                spot = len(changed) - 1 - chance.randrange(tail)
            changed[spot] = chance.randrange(256)
    elif kind == 3:
        del changed[place:]
    elif kind == 4:
        length = chance.randrange(1, 200)
        changed[place : place + length] = chance.randbytes(length)
    else:
        changed[place:place] = changed[place // 2 : place // 2 + chance.randrange(1, 200)]
    return bytes(changed)


def audited(lake: Lake, kind: str, content: bytes) -> dict[str, Any]:
    """Put a file in the place of the model's or the labels', audit, and return what came of it."""
    if kind == "model":
        path = pathlib.Path(lake.uri) / "models" / "good" / f"day={DAY}" / "model.cbm"
        path.write_bytes(content)
        edit_manifest(lake, "good", DAY, sha256=hashlib.sha256(content).hexdigest())
    else:
        label_path(lake, "flights").write_bytes(content)
    audit = recorded(lake, PLAN).audit
    return {
        "status": str(audit.status),
        "verdict": str(audit.verdict),
        "detail": audit.detail,
        "reason": audit.reason,
        "epsilon_lower": audit.epsilon_lower,
    }
