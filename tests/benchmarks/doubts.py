"""How often an honest audit is doubtful, and by which remarks: docs/evidence/statistics.md.

    python -m tests.benchmarks.doubts [--audits 10] [--rows 2500 10000] [--epsilons 1 0.2]
        [--only WORDS ...]

Learners of `tests.benchmarks.real_learners` are trained on two days of a lake, with labels as they
are or through randomized response, whose epsilon is declared (8 where there is none). A quarter as
many rows are held out as are trained on, at random. `rare` has 2% positives; labels of `drift` and
`turned` differ from the day before's. A cell counts verdicts, and doubts beside them. Seeds are
[56, 0] and on.
"""

import argparse
import pathlib
import tempfile
from collections import Counter

import lightgbm
import numpy as np
import polars as pl
from scipy.special import expit

from tests.benchmarks.real_learners import noisy, world
from tests.support.audits import audited
from tests.support.frameworks import Trained, put_trained
from tests.support.lake import DAY, EVE, declared, put_labels
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn
from workers.remark import doubts_among
from workers.warehouse.schema import AuditRow

_FEATURES = 8
_NAMES = [f"x{place}" for place in range(_FEATURES)]
_COLUMNS = [Feature(name=name, kind="numeric") for name in _NAMES]
_LABEL = LabelColumn(column="clicked", classes=(0, 1))
_NONE = 8.0
"""Declared where labels are as they are: no audit of so few rows refutes it."""
LEARNERS = {
    "5 trees, 4 leaves": {"trees": 5, "num_leaves": 4, "min_data_in_leaf": 200},
    "80 trees, 31 leaves": {"trees": 80, "num_leaves": 31, "min_data_in_leaf": 20},
    "200 trees, 63 leaves, 1 row a leaf": {"trees": 200, "num_leaves": 63, "min_data_in_leaf": 1},
}
WORLDS = {"usual": (0.0, 0.0), "rare": (-4.0, 0.0), "drift": (0.0, 1.0), "turned": (0.0, 3.0)}
"""What is added to the log-odds of every label, and to those of today's alone."""


def audit(
    learner: str, kind: str, rows: int, epsilon: float | None, seed: int, folder: pathlib.Path
) -> AuditRow:
    """Train two models on two days, and return the record of the second one's audit."""
    random = np.random.default_rng([56, seed])
    truth, (shift, turn) = world(random), WORLDS[kind]
    lake = Lake(str(folder))
    settings = LEARNERS[learner] | {"objective": "binary", "num_threads": 1, "verbose": -1}
    trees = settings.pop("trees")
    for day, more in ((EVE, 0.0), (DAY, turn)):
        features = random.normal(size=(rows, _FEATURES))
        labels = (random.random(rows) < expit(truth(features) + shift + more)).astype(np.int64)
        read = labels if epsilon is None else noisy(labels, epsilon, random)
        held = random.random(rows) < 0.2
        booster = lightgbm.train(settings, lightgbm.Dataset(features[~held], read[~held]), trees)
        trained = Trained("lightgbm", booster.model_to_string().encode(), booster.predict)
        frame = pl.DataFrame(features, schema=_NAMES).with_columns(
            clicked=pl.Series(labels), split=pl.Series(np.where(held, "holdout", "train"))
        )
        put_labels(lake, day, frame)
        privacy = declared(_NONE if epsilon is None else epsilon)
        put_trained(lake, day, trained, label=_LABEL, features=_COLUMNS, privacy=privacy)
    return audited(lake)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--audits", type=int, default=10)
    arguments.add_argument("--rows", type=int, nargs="+", default=[2_500, 10_000])
    arguments.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.2])
    arguments.add_argument("--only", nargs="+", default=[""], help="words in a learner's name")
    given = arguments.parse_args()
    print("| learner | world | rows | epsilon | verdicts | doubts |\n|" + " --- |" * 6)  # noqa: T201
    total: Counter[str] = Counter()
    for learner in (name for name in LEARNERS if any(word in name for word in given.only)):
        for kind in WORLDS:
            for rows in given.rows:
                for epsilon in (None, *given.epsilons):
                    found = []
                    for seed in range(given.audits):
                        with tempfile.TemporaryDirectory() as name:
                            where = pathlib.Path(name)
                            found.append(audit(learner, kind, rows, epsilon, seed, where))
                    verdicts = Counter(row.reason_code or row.verdict for row in found)
                    doubts = Counter(word for row in found for word in doubts_among(row.remarks))
                    total += verdicts
                    cells = (learner, kind, f"{rows:,}", epsilon or "no noise", _told(verdicts))
                    print(f"| {' | '.join(map(str, cells))} | {_told(doubts)} |", flush=True)  # noqa: T201
    print(f"\n{_told(total)} of {total.total()} audits.")  # noqa: T201


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in counts.most_common()) or "none"


if __name__ == "__main__":
    main()
