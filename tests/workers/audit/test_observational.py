"""Definition 4 of "Observational Auditing of Privacy": the game leaves training as it is."""

import hashlib
import pathlib

import numpy as np
import pytest

from privcore.attacks import label_inference
from tests.support.audits import recorded
from tests.support.lake import small_lake
from tests.support.words import naive_draw

KEY = 17


def files(folder: pathlib.Path) -> dict[str, tuple[str, int]]:
    """Return each file's digest and its time of change."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.paper("observational", "Definition 4")
def test_an_audit_leaves_data_and_models_as_they_are(tmp_path: pathlib.Path) -> None:
    lake = small_lake(tmp_path)
    before = files(tmp_path)
    record = recorded(lake)
    assert record.audit.status == "evaluated"
    assert len(before) > 6
    assert files(tmp_path) == before


class Says:
    """An adversary that always says the same: it is right where the coin says it, too."""

    def __init__(self, score: float) -> None:
        self.score = score

    def __call__(self, target: np.ndarray, proxy: np.ndarray) -> np.ndarray:
        del proxy
        return np.full(target.shape, self.score)


@pytest.mark.paper("observational", "Definition 4")
def test_the_coins_are_the_challenger_s_alone() -> None:
    """The artifacts S are drawn apart: no label, model or proxy moves a record's coin."""
    random = np.random.default_rng(4)
    records = 40
    drawn = [naive_draw(KEY, record, 0)[0] for record in range(records)]
    assert 5 < sum(drawn) < 35
    for _ in range(3):
        labels = random.integers(0, 3, records)
        target, proxy = (random.dirichlet(np.ones(3), records) for _ in range(2))
        for record in range(records):
            one = slice(record, record + 1)
            tally = label_inference(
                target[one],
                proxy[one],
                labels[one],
                score=Says(1.0),
                repetitions=1,
                key=KEY,
                indices=np.array([record]),
            )
            assert int(tally.correct.sum()) == drawn[record]
