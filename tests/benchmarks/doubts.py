"""How often an honest audit is doubted, and by which remarks: docs/evidence/statistics.md.

    python -m tests.benchmarks.doubts [--audits 10] [--rows 2500 10000] [--epsilons 1 0.2]
        [--only WORDS ...] [--worlds usual ...]

Learners are trained on two days of a lake, with labels as they are or through randomized response,
whose epsilon is declared (8 where there is none). A quarter as many rows are held out as are
trained on, at random. `rare` has 2% positives; labels of `drift` and `turned` differ from the day
before's; `mixed` has counts, words and gaps among its columns, which ONNX's learners do not take;
in `persons` four rows are of one person, who is held out whole and declared four times epsilon. A
learner "in a table" gives its predictions, and the columns as context, and no file. A cell counts
verdicts, and doubts beside them. Seeds are [56, 0] and on.
"""

import argparse
import pathlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import xgboost
from catboost import CatBoostClassifier
from numpy.typing import NDArray
from scipy.special import expit
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from flows.study.exam_worlds import log_odds_of, response
from tests.support.audits import audited
from tests.support.frameworks import Trained, put_trained
from tests.support.lake import DAY, EVE, PLAN, declared, put_labels
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn, Privacy
from workers.plan import Plan
from workers.remark import doubts_among
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRow

_FEATURES = 8
_NAMES = [f"x{place}" for place in range(_FEATURES)]
_WORDS = [f"w{place}" for place in range(12)]
_LABEL = LabelColumn(column="clicked", classes=(0, 1))
_NONE = 8.0
"""Declared where labels are as they are: no audit of so few rows refutes it."""
_IN_A_TABLE = ", in a table"
_ROWS_EACH = 4
_OF_PERSONS = PLAN.model_copy(update={"privacy_unit": "person"})
Learner = Callable[[pd.DataFrame, NDArray[np.int64]], Trained]


def _lightgbm(trees: int, **given: int) -> Learner:
    def fit(rows: pd.DataFrame, labels: NDArray[np.int64]) -> Trained:
        settings = {"objective": "binary", "num_threads": 1, "verbose": -1} | given
        model = lightgbm.train(settings, lightgbm.Dataset(rows, labels), trees)
        content = model.model_to_string().encode()
        return Trained("lightgbm", content, lambda some: np.asarray(model.predict(some)))

    return fit


def _xgboost(rows: pd.DataFrame, labels: NDArray[np.int64]) -> Trained:
    def table(asked: pd.DataFrame, **more: Any) -> xgboost.DMatrix:
        return xgboost.DMatrix(asked, enable_categorical=True, **more)

    settings = {"objective": "binary:logistic", "max_depth": 5, "nthread": 1}
    model = xgboost.train(settings, table(rows, label=labels), 60)
    return Trained("xgboost", bytes(model.save_raw("ubj")), lambda some: model.predict(table(some)))


def _catboost(rows: pd.DataFrame, labels: NDArray[np.int64]) -> Trained:
    words = rows.select_dtypes("category").columns.to_list()
    model = CatBoostClassifier(
        iterations=100, depth=6, thread_count=1, verbose=False, allow_writing_files=False
    ).fit(rows, labels, cat_features=words)
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "model.cbm"
        model.save_model(str(path))
        return Trained("catboost", path.read_bytes(), lambda some: model.predict_proba(some)[:, 1])


def _onnx(made: Callable[[], Any]) -> Learner:
    def fit(rows: pd.DataFrame, labels: NDArray[np.int64]) -> Trained:
        numbers = rows.to_numpy(np.float32)
        model = made().fit(numbers, labels)
        content = to_onnx(model, numbers[:1], options={"zipmap": False}).SerializeToString()
        return Trained("onnx", content, lambda some: model.predict_proba(some.to_numpy())[:, 1])

    return fit


_USUAL = _lightgbm(80, num_leaves=31, min_data_in_leaf=20)
LEARNERS: dict[str, Learner] = {
    "LightGBM, 5 trees, 4 leaves": _lightgbm(5, num_leaves=4, min_data_in_leaf=200),
    "LightGBM, 80 trees, 31 leaves": _USUAL,
    "LightGBM, 200 trees, 63 leaves, 1 row a leaf": _lightgbm(
        200, num_leaves=63, min_data_in_leaf=1
    ),
    "XGBoost, 60 trees, depth 5": _xgboost,
    "CatBoost, 100 trees, depth 6": _catboost,
    "ONNX, logistic regression": _onnx(LogisticRegression),
    "ONNX, network of 32": _onnx(lambda: MLPClassifier((32,), max_iter=40, random_state=0)),
    f"LightGBM, 80 trees, 31 leaves{_IN_A_TABLE}": _USUAL,
}
WORLDS = {
    "usual": (0.0, 0.0),
    "rare": (-4.0, 0.0),
    "drift": (0.0, 1.0),
    "turned": (0.0, 3.0),
    "mixed": (0.0, 0.0),
    "persons": (0.0, 0.0),
}
"""What is added to the log-odds of every label, and to those of today's alone."""


def audit(
    learner: str, kind: str, rows: int, epsilon: float | None, seed: int, folder: pathlib.Path
) -> AuditRow:
    """Train two models on two days, and return the record of the second one's audit."""
    random = np.random.default_rng([56, seed])
    truth, (shift, turn) = log_odds_of(random), WORLDS[kind]
    lake = Lake(str(folder))
    plan, each = (PLAN, 1) if kind != "persons" else (_OF_PERSONS, _ROWS_EACH)
    unit = {"unit": "person"} if each > 1 else {}
    privacy = declared(_NONE if epsilon is None else each * epsilon, **unit)
    models = []
    for day, more in ((EVE, 0.0), (DAY, turn)):
        features = random.normal(size=(rows, _FEATURES))
        persons = np.arange(rows) // each
        own = random.normal(size=rows)[persons] if each > 1 else 0.0
        chance = expit(truth(features) + shift + more + own)
        labels = (random.random(rows) < chance).astype(np.int64)
        read = labels if epsilon is None else response(labels, epsilon, random)
        held = (random.random(rows) < 0.2)[persons]
        frame = _columns(features, random) if kind == "mixed" else pl.DataFrame(features, _NAMES)
        trained = LEARNERS[learner](_as_pandas(frame)[~held], read[~held])
        models.append(trained)
        known = frame.with_columns(
            clicked=pl.Series(labels),
            split=pl.Series(np.where(held, "holdout", "train")),
            person=pl.Series(persons),
        )
        if learner.endswith(_IN_A_TABLE):
            continue
        put_labels(lake, day, known)
        put_trained(lake, day, trained, label=_LABEL, features=_of(frame), privacy=privacy)
    if learner.endswith(_IN_A_TABLE):
        said = {
            name: pl.Series(np.asarray(model.says(_as_pandas(frame))))
            for name, model in zip(("old", "new"), models, strict=True)
        }
        table = known.with_columns(**said)
        return _audited_table(folder, table, plan, Privacy.model_validate(privacy))
    return audited(lake, plan)


def _columns(features: NDArray[np.float64], random: np.random.Generator) -> pl.DataFrame:
    """Return features of which one is a count, one a word, and one has gaps."""
    known = np.where(random.random(len(features)) < 0.8, features[:, 2], np.nan)
    places = np.clip((features[:, 1] * 2 + 6).astype(int), 0, len(_WORDS) - 1)
    return pl.DataFrame(features, _NAMES).with_columns(
        x0=pl.Series(np.clip((features[:, 0] * 2).astype(int) + 4, 0, None)),
        x1=pl.Series(np.array(_WORDS)[places]),
        x2=pl.Series(known, nan_to_null=True),
    )


def _as_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """Return features as people train on them: words are categories."""
    found = frame.to_pandas()
    for name, kind in frame.schema.items():
        if kind == pl.String:
            found[name] = pd.Categorical(found[name], categories=_WORDS)
    return found


def _of(frame: pl.DataFrame) -> Iterator[Feature]:
    for name, kind in frame.schema.items():
        yield Feature(name=name, kind="categorical" if kind == pl.String else "numeric")


def _audited_table(
    folder: pathlib.Path, frame: pl.DataFrame, plan: Plan, privacy: Privacy
) -> AuditRow:
    """Return the record of predictions that somebody wrote beside labels and features."""
    where = folder / "scores"
    (where / f"day={DAY}").mkdir(parents=True)
    frame.write_parquet(where / f"day={DAY}" / "part.parquet")
    named = {"table": str(where), "label": "clicked", "target": "new", "proxy": "old"}
    table = ScoreTables.model_validate(named | {"context": _NAMES})
    given = SuppliedScores(table, privacy)
    return run_audit(
        Lake(str(folder)), "ads", DAY, plan=plan, executor=InProcess(), external_inputs=given
    ).audit


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--audits", type=int, default=10)
    arguments.add_argument("--rows", type=int, nargs="+", default=[2_500, 10_000])
    arguments.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.2])
    arguments.add_argument("--only", nargs="+", default=[""], help="words in a learner's name")
    arguments.add_argument("--worlds", nargs="+", default=[*WORLDS])
    given = arguments.parse_args()
    print("| learner | world | rows | epsilon | verdicts | doubts |\n|" + " --- |" * 6)  # noqa: T201
    total: Counter[str] = Counter()
    for learner in (name for name in LEARNERS if any(word in name for word in given.only)):
        for kind in (one for one in given.worlds if one != "mixed" or "ONNX" not in learner):
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
