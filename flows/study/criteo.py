"""`privaudit study criteo`: Table 2 and Table 5 of the game's paper, on real or made-up clicks.

"Observational Auditing of Privacy" (arXiv:2511.14084): a proxy trained on one day, a target on the
next with each mechanism and epsilon. The paper takes the setup of Wu et al. 2023, whose code is
public (`jinpz/label_differential_privacy`) and fixes what the paper does not print: which lines are
drawn, how many trees answer, how PATE votes, how corrected probabilities are clipped. Every model
goes into the lake with its complete manifest. The paper's protocol plays with 200,000 of its
training records; the audit is that of any other model and plays with all of them.
"""

import datetime as dt
import itertools
import math
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from flows.progress import announce
from flows.report.study_page import StudyTable
from flows.study.runner import Cell, Shown, Study
from flows.study.tables import (
    FIGURE,
    TABLE_2,
    TABLE_5,
    TITLE,
    Answers,
    Axis,
    CellRow,
    Show,
    chart,
    colored,
    figure_beside,
    figure_points,
    paper_figures,
    paragraphs,
    points_of,
    printed_cells,
    printed_points,
    table_of,
    value_of,
)
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.noisy_max import Noise
from privcore.upper_bounds import Published
from workers.audit.run import run_audit
from workers.datasets.criteo import (
    DATASET,
    FEATURES,
    LABEL,
    SYNTHETIC_DATASET,
    VALIDATION,
    ingest_day,
    write_synthetic_day,
)
from workers.executors import InProcess
from workers.labels.columns import HOLDOUT, TRAIN, read_shard
from workers.labels.shards import list_shards
from workers.lake.checkpoints import probabilities, read_checkpoint, write_checkpoint
from workers.lake.layout import Lake, checkpoint_folder, labels_folder
from workers.plan import Plan
from workers.training.jobs import Recipe, TrainingJob, declaration, read_training_data, write_model
from workers.training.methods import (
    Learner,
    Method,
    MultiStage,
    Pate,
    TrainedModel,
    TrainingData,
    method_named,
)

SEED = 2511
MECHANISMS = (
    "lp-1st", "lp-1st-domain-prior", "lp-1st-noise-correction", "lp-2st", "pate-laplace",
    "pate-gaussian", "alibi",
)  # fmt: skip
EPSILONS = (math.inf, 8.0, 4.0, 2.0, 1.0, 0.1)
PARAMETERS = {"iterations": 100, "learning_rate": 0.4, "depth": 8}
TEACHERS, QUERIES = 100, 200
TREES = ("validation", "all")
"""Trees up to the best iteration on the validation labels, as in the setup, or all of them."""
_OURS = {name: name for name in TABLE_2} | {"pate": "pate-laplace"}
"""Our names of the paper's rows."""
_USELESS = 0.3
_SETTINGS = (
    "the rows, the seeds and the training on a GPU of the paper's models are not published; one "
    "model was trained here, on a CPU"
)
_FREE_CHOICES = {
    "pate": "the setup's code names one noise, a Laplace scale of 20 at epsilon 8.07 and delta "
    "1e-4",
    "lp-1st-domain-prior": "the setup's code spends 0.05 on its prior and keeps the prior in a "
    "file; here it is measured with a twentieth of epsilon",
}
_ERRORS = 2.0
_FIGURE, _LOWER, _LOSS = "paper's figure ± deviation", "epsilon_lower", "test log-loss"
ROWS = 1_000_000  # a day, as in the paper; 80% of it is trained on
CANARIES = 200_000  # of the training records, in the paper's protocol; all where there are fewer
PLAN = Plan(power=2.0, repetitions=100, significance=0.05, delta=1e-5, seed=SEED)
PROXY_DAY, TARGET_DAY = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
_SMALLEST = 1e-15
_PREFIX = "study-criteo-"
_OF_AUDIT = (
    "control_epsilon_paper", "epsilon_lower", "epsilon_ceiling", "epsilon_accounted",
    "control_epsilon_lower", "control_epsilon_if_proxy_right", "verdict", "records",
    "control_records",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Days:
    """The lake that has both days, and the data set's name, which says whether they are made up."""

    lake: Lake
    dataset: str


def study(output: pathlib.Path, *, scale: float, files: Sequence[pathlib.Path] = ()) -> Study:
    """Return the study, whose days and proxies are there: every mechanism at every epsilon.

    Without files two days are made up.

    Raises:
        InvalidInputError: files that are not two or that cannot be read.
    """
    if files and len(files) != 2:
        rule = "give two files, the proxy's day and the target's"
        raise InvalidInputError("--input", [str(path) for path in files], rule)
    days = _own_days(output, max(4_000, round(ROWS * scale)), files)
    for number, trees in enumerate(TREES):
        if not days.lake.exists(checkpoint_folder(_proxy(trees), PROXY_DAY)):
            announce("Proxies", number, len(TREES))
            _train_proxy(days, trees)
            announce("Proxies", number + 1, len(TREES))
    found_rows = sum(shard.rows for shard in list_shards(days.lake, days.dataset, TARGET_DAY))
    return Study(
        "Criteo",
        "Private labels on clicks, by mechanism and epsilon",
        _cells(days, found_rows),
        compute,
        days,
        lambda found: shown(
            pl.concat(found.rows.filter(mechanism=name) for name in MECHANISMS),
            days.dataset,
        ),
        # Malformed rows, at most 1%, are left out of a day.
        1.0 if 0.99 * ROWS <= found_rows <= 1.01 * ROWS else found_rows / ROWS,
        data="" if files else "synthetic data",
    )


def _cells(days: Days, rows: int) -> list[Cell]:
    """Return PATE of either trees, and one cell for each of the other models."""
    identity = {
        "dataset": days.dataset,
        # What tells the two days' labels from others.
        "labels": [
            (file.name, file.size, file.changed_ns)
            for day in (PROXY_DAY, TARGET_DAY)
            for file in days.lake.label_files(days.dataset, day)
        ],
        "rows": rows,
        "seed": SEED,
        "catboost": PARAMETERS,
        "pate": [TEACHERS, QUERIES, PLAN.delta],
        "plan": PLAN.model_dump(mode="json"),
        "canaries": CANARIES,
    }
    # The longest first, so that no worker waits for it at the end.
    pate = [
        Cell(f"pate-{trees}", {**identity, "mechanism": "pate", "trees": trees}) for trees in TREES
    ]
    return pate + [
        Cell(
            f"{mechanism}-{epsilon:g}-{trees}",
            {**identity, "mechanism": mechanism, "epsilon": epsilon, "trees": trees},
        )
        for trees in TREES
        for mechanism in MECHANISMS
        if not mechanism.startswith("pate")
        for epsilon in EPSILONS
    ]


def _own_days(output: pathlib.Path, rows: int, files: Sequence[pathlib.Path]) -> Days:
    """Bring two days into a lake in the study's folder, unless an earlier run did."""
    dataset = DATASET if files else SYNTHETIC_DATASET
    lake = Lake(str(output / f"lake-{dataset}-{rows}"))
    for number, day in enumerate((PROXY_DAY, TARGET_DAY)):
        if lake.exists(labels_folder(dataset, day)):
            pass
        elif files:
            ingest_day(lake, files[number], day, rows=rows, seed=SEED)
        else:
            write_synthetic_day(lake, day, number=number, rows=rows, seed=SEED)
        announce("Days of clicks", number + 1, 2)
    return Days(lake, dataset)


def compute(days: Days, cell: Cell) -> list[CellRow]:
    """Return the rows of one model, or of all that PATE's teachers make."""
    mechanism, trees = cell.parameters["mechanism"], cell.parameters["trees"]
    if mechanism == "pate":
        return list(_pate(days, trees))
    method = method_named(mechanism, cell.parameters["epsilon"])
    if isinstance(method, MultiStage):
        method = replace(method, floor=0.0)
    random = generator(SEED, mechanism, f"{method.epsilon:g}", "mechanism")
    data, learner = _data(days, TARGET_DAY), _learner(days, TARGET_DAY, trees)
    model = method.fit(data, learner, random=random, executor=InProcess())
    return [_audited(days, mechanism, method, trees, model)]


def _pate(days: Days, trees: str) -> Iterator[CellRow]:
    """The teachers vote once; each noise and epsilon makes a student of its own."""
    data, learner = _data(days, TARGET_DAY), _learner(days, TARGET_DAY, trees)
    teachers = min(TEACHERS, data.records // 50)
    class_of = Pate(
        math.inf, delta=PLAN.delta, teachers=teachers, queries=QUERIES, answers="sample"
    )
    queried, votes = class_of.vote(
        data, learner, random=generator(SEED, "teachers"), executor=InProcess()
    )
    noises: dict[str, Noise] = {"pate-laplace": "laplace", "pate-gaussian": "gaussian"}
    for mechanism, noise in noises.items():
        for epsilon in EPSILONS:
            method = replace(class_of, epsilon=epsilon, noise=noise)
            random = generator(SEED, mechanism, f"{epsilon:g}", "mechanism")
            model = method.graduate(data.features[queried], votes, learner, random=random)
            yield _audited(days, mechanism, method, trees, model)


def _data(days: Days, day: dt.date, split: str = TRAIN) -> TrainingData:
    return read_training_data(days.lake, Recipe(_PREFIX, days.dataset, LABEL, FEATURES), day, split)


def _learner(days: Days, day: dt.date, trees: str) -> Learner:
    """CatBoost; the day's validation labels choose how many trees answer, or all do."""
    kept = _data(days, day, VALIDATION) if trees == TREES[0] else None
    return Learner(LABEL, FEATURES, SEED, PARAMETERS, kept)


def _proxy(trees: str) -> str:
    return f"{_PREFIX}proxy-{trees}"


def _train_proxy(days: Days, trees: str) -> None:
    recipe = Recipe(_proxy(trees), days.dataset, LABEL, FEATURES, parameters=PARAMETERS)
    data, learner = _data(days, PROXY_DAY), _learner(days, PROXY_DAY, trees)
    plain = MultiStage(math.inf)
    model = plain.fit(data, learner, random=generator(SEED), executor=InProcess())
    write_model(days.lake, TrainingJob(recipe, PROXY_DAY, SEED), model)


def _audited(
    days: Days, mechanism: str, method: Method, trees: str, model: TrainedModel
) -> CellRow:
    """Write target and proxy under the model's name, audit, and return the row."""
    lake, name = days.lake, f"{_PREFIX}{mechanism}-{method.epsilon:g}-{trees}"
    privacy = declaration(
        method,
        classes=len(LABEL.classes),
        unit="click",
        declared_by="privaudit study criteo",
        declared_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    recipe = Recipe(name, days.dataset, LABEL, FEATURES, method, privacy, PARAMETERS)
    proxy = read_checkpoint(lake, _proxy(trees), PROXY_DAY)
    write_checkpoint(lake, proxy.manifest.model_dump() | {"model": name}, proxy.content)
    write_model(lake, TrainingJob(recipe, TARGET_DAY, SEED), model)
    audit = run_audit(lake, name, TARGET_DAY, plan=PLAN, executor=InProcess()).audit
    if audit.status != "evaluated":
        raise InvalidInputError(name, audit.status, audit.reason)
    log_loss, answers = _answers(lake, recipe)
    return {
        "mechanism": mechanism,
        "trees": trees,
        "epsilon": f"{method.epsilon:g}",
        "delta": method.delta,
        "test_log_loss": log_loss,
        **paper_figures(answers, plan=PLAN, canaries=CANARIES, name=name),
        "repetitions": PLAN.repetitions,
        **{column: getattr(audit, column) for column in _OF_AUDIT},
    }


def _answers(lake: Lake, recipe: Recipe) -> tuple[float, Answers]:
    """Return the target's log-loss, and both models' answers on its day's training records."""
    checkpoints = [read_checkpoint(lake, recipe.model, day) for day in (TARGET_DAY, PROXY_DAY)]
    losses, parts = [], []
    for shard in list_shards(lake, recipe.dataset, TARGET_DAY):
        rows = read_shard(lake, shard, label=recipe.label, features=recipe.features)
        predicted, expected = (
            probabilities(checkpoint, rows.features) for checkpoint in checkpoints
        )
        own = predicted[np.arange(len(rows.labels)), rows.labels][rows.part(HOLDOUT)]
        losses.append(-np.log(np.clip(own, _SMALLEST, 1.0)))
        trained = rows.part(TRAIN)
        parts.append((predicted[trained], expected[trained], rows.labels[trained]))
    log_loss = float(np.concatenate(losses).mean())
    target, proxy, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return log_loss, Answers(target, proxy, labels)


def shown(models: pl.DataFrame, dataset: str) -> Shown:
    """Return what there is to show of all models, trained on a data set's days."""
    synthetic = dataset == SYNTHETIC_DATASET
    name = "criteo_synthetic" if synthetic else "criteo"
    kind = "SYNTHETIC clicks" if synthetic else "clicks"
    best, whole = (models.filter(trees=trees) for trees in TREES)
    return Shown(
        sentences(best, whole, dataset),
        [
            _models_table(best, f"{kind}: {dataset}, {PROXY_DAY} and {TARGET_DAY}"),
            _models_table(whole, "The same, where all 100 trees of each model answer"),
            _fall_table(best),
            _order_table(best),
        ],
        published(best),
        {name: models.with_columns(dataset=pl.lit(dataset), seed=pl.lit(SEED))},
        {name: _chart(best, f"Mechanisms on {kind.lower()}")},
    )


def _models_table(models: pl.DataFrame, title: str) -> StudyTable:
    return table_of(
        title,
        (row for mechanism in MECHANISMS for row in by_epsilon(models, mechanism)),
        {
            "mechanism": "{mechanism}",
            "epsilon": "{epsilon}",
            "log-loss": "{test_log_loss:.4f}",
            "paper's": FIGURE,
            "its control": "{control_epsilon_paper:.2f}",
            "at 1%": "{epsilon_fixed:.2f} ± {epsilon_fixed_deviation:.2f}",
            "lower": "{epsilon_lower:.2f}",
            "control": "{control_epsilon_lower:.2f}",
            "ceiling": "{epsilon_ceiling:.2f}",
            "verdict": "{verdict}",
        },
        text=("mechanism", "verdict"),
        wide=("at 1%", "ceiling"),
    )


def published(models: pl.DataFrame) -> list[Published]:
    """Return every cell of Tables 2 and 5 beside ours.

    A figure agrees within two printed standard deviations, a log-loss within 0.01 or 10% of it.
    """
    ours = {(row["mechanism"], row["epsilon"]): row for row in models.to_dicts()}
    tables = (("Table 2", TABLE_2, "epsilon"), ("Table 5", TABLE_5, "log-loss"))
    rows = []
    for place, table, quantity in tables:
        for (mechanism, epsilon), cell in printed_cells(table).items():
            name = f"{quantity} of {mechanism} at {epsilon}"
            row = ours.get((_OURS[mechanism], epsilon))
            if row is not None:
                rows.append(Published(TITLE, place, name, *_beside(row, mechanism, cell)))
    return rows


def _beside(
    row: CellRow, mechanism: str, printed: tuple[float, float | None] | None
) -> tuple[str, str, bool, str]:
    loss, why = row["test_log_loss"], _SETTINGS
    if mechanism in _FREE_CHOICES:
        why += f"; {_FREE_CHOICES[mechanism]}"
    if printed is None:  # every click is ruled out
        why = "training came to something"
        words, found, agrees = "-", f"log-loss {loss:.2f}", loss > _USELESS
    elif printed[1] is None:
        words, found = f"{printed[0]:.3f}", f"{loss:.3f}"
        agrees = abs(loss - printed[0]) <= max(0.01, 0.1 * printed[0])
    else:
        words, found, agrees = figure_beside(row, printed)
    return words, found, agrees, "" if agrees else why


def exceeds(one: CellRow, other: CellRow) -> bool:
    """Return whether one paper's figure exceeds another by over two standard errors.

    They are those of the game's coins, for one model.
    """
    errors = (
        row["epsilon_paper_deviation"] / math.sqrt(row["repetitions"]) for row in (one, other)
    )
    return bool(one["epsilon_paper"] - other["epsilon_paper"] > _ERRORS * math.hypot(*errors))


def by_epsilon(models: pl.DataFrame, mechanism: str) -> list[CellRow]:
    """Return a mechanism's models, the largest epsilon first."""
    rows = {row["epsilon"]: row for row in models.filter(mechanism=mechanism).to_dicts()}
    return [rows[f"{epsilon:g}"] for epsilon in EPSILONS]


def rises(models: pl.DataFrame, mechanism: str) -> list[str]:
    """Return at which epsilons the paper's figure exceeds that at the next larger epsilon."""
    pairs = itertools.pairwise(by_epsilon(models, mechanism))
    return [after["epsilon"] for before, after in pairs if exceeds(after, before)]


def order_of(models: pl.DataFrame, epsilon: str) -> str:
    """Return the mechanisms at one epsilon, the largest paper's figure first.

    Between neighbours stands ">" where they differ by more than two standard errors, else "~".
    """
    rows = models.filter(epsilon=epsilon).sort("epsilon_paper", descending=True).to_dicts()
    text: str = rows[0]["mechanism"]
    for larger, smaller in itertools.pairwise(rows):
        text += f" {'>' if exceeds(larger, smaller) else '~'} {smaller['mechanism']}"
    return text


def _fall_table(models: pl.DataFrame) -> StudyTable:
    rows = [
        {"mechanism": mechanism, "rose": ", ".join(rises(models, mechanism))}
        | {row["epsilon"]: row["epsilon_paper"] for row in by_epsilon(models, mechanism)}
        for mechanism in MECHANISMS
    ]
    columns: dict[str, Show] = {"mechanism": "{mechanism}"}
    columns |= {f"{epsilon:g}": value_of(f"{epsilon:g}", "{:.2f}") for epsilon in EPSILONS}
    columns["falls"] = lambda row: f"no: rises at {row['rose']}" if row["rose"] else "yes"
    title = "Does the paper's figure fall with epsilon, within two standard errors?"
    return table_of(title, rows, columns, text=("mechanism", "falls"))


def _order_table(models: pl.DataFrame) -> StudyTable:
    return table_of(
        "Mechanisms by the paper's figure, largest first (~ within two standard errors)",
        ({"epsilon": f"{epsilon:g}"} for epsilon in EPSILONS),
        {"epsilon": "{epsilon}", "order": lambda row: order_of(models, row["epsilon"])},
        text=("order",),
    )


def sentences(models: pl.DataFrame, whole: pl.DataFrame, dataset: str) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    synthetic = dataset == SYNTHETIC_DATASET
    first = models.row(0, named=True)
    data = (
        "The clicks are synthetic, made up in the shape of Criteo's logs: no figure here says "
        "anything about Criteo."
        if synthetic
        else f"The clicks are those of {dataset} in the lake."
    )
    setting = ", ".join(f"{name} {value}" for name, value in PARAMETERS.items())
    controls = [max(frame["control_epsilon_paper"].to_list()) for frame in (models, whole)]
    falling = [name for name in MECHANISMS if not rises(models, name)]
    best = models.row(int(models["test_log_loss"].arg_min() or 0), named=True)
    known = "; knowing every chance of a click, it would be about 0.12" if synthetic else ""
    wrong = pl.concat([models, whole]).filter(verdict="violated")
    verdicts = (
        "No declared guarantee was refuted."
        if wrong.is_empty()
        else f"REFUTED, though true: {', '.join(wrong['mechanism'] + ' ' + wrong['epsilon'])}."
    )
    return paragraphs(f"""
    {data} {first["records"]:,} training records, {first["canaries"]:,} of them in the paper's
    protocol, and {first["control_records"]:,} test records, seed {SEED}. CatBoost has {setting},
    and answers with its trees up to the best log-loss on the validation labels, which no mechanism
    protects. PATE has at most {TEACHERS} teachers (50 records each at least). They vote by a draw
    from their probabilities, and the student learns a draw from the noisy counts of {QUERIES}
    records; Laplace noise has a delta, too. Noise correction clips to [0, 1].

    The control plays the paper's game on records that training never saw, so what it reads is how
    wrong the proxy is, and no leak. It is at most {controls[0]:.2f} with these trees, and at most
    {controls[1]:.2f} with all of them.

    Column paper's: score exponent 2, best of 1..100% guesses, Gaussian family, 95%, delta 1e-5,
    mean ± standard deviation over 100 repetitions; not corrected. Column lower: the audit's
    headline; the control plays on test records, which training never saw.

    Column at 1%: the same figure at a fixed 1% of guesses, not the best of 100 (Table 6 has it for
    CIFAR-10).

    The paper's figure falls as epsilon does for {len(falling)} of {len(MECHANISMS)} mechanisms:
    {", ".join(falling) or "none"}. Standard errors are of the mean over the game's repetitions; one
    model was trained for each row, and another might differ by more.

    The paper's own numbers do not fit everywhere: it has 24 days of clicks in section 6.4 and 28 in
    6.2, and as many canaries as test records, 200,000, where 16% of a million are 160,000. Its
    deviations at epsilon 4 and above, 0.10 to 0.22, are 1.6 to 3.6 times what coins and
    counterfactuals can do to 2,000 guesses (0.05 to 0.06, as here): they are those of some hundred
    guesses, which its sweep from 1% of 200,000 does not have.

    The lowest test log-loss is {best["test_log_loss"]:.3f} ({best["mechanism"]}, epsilon
    {best["epsilon"]}){known}.

    {verdicts}
    """)


def _chart(models: pl.DataFrame, title: str) -> Any:
    rows = models.to_dicts()
    printed = printed_points(TABLE_2, _FIGURE) + printed_points(TABLE_5, _LOSS)
    return chart(
        [
            *figure_points(rows, "epsilon", "{mechanism}", _FIGURE),
            *points_of(rows, "epsilon", {"epsilon_lower": "{mechanism}"}, panel=_LOWER),
            *points_of(rows, "epsilon", {"test_log_loss": "{mechanism}"}, panel=_LOSS),
            *({**point, "series": _OURS[point["series"]]} for point in printed),
        ],
        title,
        x=Axis("declared epsilon", order=["0.1", "1", "2", "4", "8", "inf"]),
        y=Axis(None, own_scales=True),
        colors=colored(MECHANISMS, "red orange green blue grey pink sky"),
        size=(220, 220),
    )
