"""`privaudit study exam`: whom an auditor accuses wrongly, and what it finds, where that is known.

An auditor is one function (`Auditor`): from the probabilities and labels of training and holdout
records to a lower bound on the epsilon of a label, or to a refusal. `exam_worlds` has the nights.
"""

import datetime as dt
import importlib
import inspect
import math
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from flows.study.exam_worlds import RESPONSE, TEAMS, WORLDS, World
from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import (
    COLORS,
    Axis,
    CellRow,
    StudyTable,
    chart,
    points_of,
    side_by_side,
    table_of,
    values_of,
)
from privcore import Arm, audit_probabilities
from privcore.exceptions import InvalidInputError
from workers.versions import CODE_VERSION

SEED, SIGNIFICANCE, LEVEL = 64, 0.05, 1e-4
AUDITS, OF_TEAMS = 200, 10
OURS = "flows.study.exam:privaudit"
VERSION = f"privaudit {CODE_VERSION}"
_SMALLEST = 1e-12


class Auditor(Protocol):
    """An auditor: a function that a module names, with a docstring that says what it claims.

    The module may have a text `VERSION`, which the page shows.
    """

    def __call__(
        self, training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
    ) -> float | None:
        """Return a lower bound on epsilon, from 0 on, or None: a refusal.

        Args:
            training: records that training saw: probabilities of the target and of an earlier model
                of shape (records, 2), labels 0 and 1, on days of teams also the features.
            holdout: records of the same day that it never saw.
            significance: allowed probability that the bound is above the truth.
            random: for what the auditor draws.
        """


def privaudit(
    training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
) -> float | None:
    """Claim a lower bound on the epsilon of replacing one label, under assumption E.

    It does not claim to find every leak, nor that the model is safe where the bound is 0.
    """
    seed = int(random.integers(2**31))
    answer = audit_probabilities(training, holdout, significance=significance, seed=seed)
    return None if math.isnan(answer.epsilon_lower) else answer.epsilon_lower


def label_game(
    training: Arm, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Play the label game for an auditor that reads scores, as of canaries.

    A fair coin for each training record shows its own label, or one drawn from the earlier model's
    probabilities. The score is the shown label's log-likelihood ratio of both models.

    Returns:
        The scores, and whether the label is the record's own, both of shape (records,).
    """
    target, proxy = (np.asarray(said)[:, 1] for said in training[:2])
    own = random.random(target.size) < 0.5
    shown = np.where(own, np.asarray(training.labels), random.random(target.size) < proxy)
    likely, before = (np.where(shown == 1, said, 1.0 - said) for said in (target, proxy))
    return np.log(np.maximum(likely, _SMALLEST)) - np.log(np.maximum(before, _SMALLEST)), own


def auditor_named(name: str) -> Auditor:
    """Return the auditor `module:function`.

    Raises:
        InvalidInputError: there is none.
    """
    module, _, function = name.partition(":")
    try:
        found: Auditor = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        rule = f"it is module:function, and the module is installed or in PYTHONPATH: {error}"
        raise InvalidInputError("--auditor", name, rule) from None
    return found


def study(*, scale: float, auditors: Sequence[str] | None = None) -> Study:
    """Return the study of ours, or of these auditors.

    `scale` is the share of the audits, of which a world has 10 at least.

    Raises:
        InvalidInputError: an auditor is not there, or two have one name.
    """
    auditors = tuple(auditors or (OURS,))
    if len({name.partition(":")[2] for name in auditors}) < len(auditors):
        rule = "functions have different names, by which the page calls them"
        raise InvalidInputError("--auditor", ", ".join(auditors), rule)
    cells = []
    for name in auditors:
        # Another state of the auditor is another cell.
        source = inspect.getsource(sys.modules[auditor_named(name).__module__])
        told = {"auditor": name, "version": _version(name), "source": source, "seed": SEED}
        for kind, worlds in WORLDS.items():
            audits = OF_TEAMS if kind == TEAMS else max(10, round(AUDITS * scale))
            for place, world in enumerate(worlds):
                given = {"kind": kind, "place": place, "world": world.told, "audits": audits}
                title = f"{name.replace(':', '.')}-{kind}-{place}".replace(" ", "_")
                cells.append(Cell(title, told | given))
    title = "An exam for auditors of label privacy"
    return Study("Exam", title, cells, compute, auditors, shown)


def compute(_: Any, cell: Cell) -> list[CellRow]:
    """Return a row for each audit of a world by one auditor."""
    given = cell.parameters
    world = WORLDS[given["kind"]][given["place"]]
    auditor, stream = auditor_named(given["auditor"]), zlib.crc32(world.told.encode())
    about = {"part": "audits", "auditor": given["auditor"].partition(":")[2]}
    about |= {"kind": given["kind"], "world": given["world"], "epsilon": world.epsilon}
    about |= {"records": world.training}
    return [
        {**about, "audit": audit, **_sat(auditor, world, [SEED, stream, world.training, audit])}
        for audit in range(given["audits"])
    ]


def _sat(auditor: Auditor, world: World, seed: list[int]) -> CellRow:
    """Return one audit's bound and CPU seconds."""
    random = np.random.default_rng(seed)
    training, holdout = (Arm(*arm) for arm in world.draw(random))
    started = time.process_time()
    bound = auditor(training, holdout, significance=SIGNIFICANCE, random=random)
    if bound is not None and not bound >= 0.0:
        rule = "it is a number from 0 on, or None where the auditor refuses"
        raise InvalidInputError("the auditor's bound", bound, rule)
    seconds = time.process_time() - started
    return {"bound": None if bound is None else float(bound), "seconds": seconds}


def shown(auditors: Sequence[str], found: Computed) -> Shown:
    """Return the study's output: size, refusals, power and seconds of each auditor."""
    audits = found.part("audits").with_columns(pl.col("bound").cast(pl.Float64))
    every = _judged(audits)
    powers = _powers(audits)
    said = [
        f"{name.partition(':')[2]}: {_version(name)}. {' '.join((found.__doc__ or '').split())}"
        for name, found in ((name, auditor_named(name)) for name in auditors)
    ]
    said += [
        f"Significance {SIGNIFICANCE:g}, seed {SEED}, {dt.datetime.now(dt.UTC).date()}.",
        f"Size fails in a world where a binomial test refutes {SIGNIFICANCE:g} at {LEVEL:g}.",
        "Of an auditor whose size fails, power says nothing.",
        "Where a condition is broken nothing leaks, and no test can see the breach.",
    ]
    names = list(dict.fromkeys(audits["auditor"]))
    drawing = chart(
        points_of(powers.to_dicts(), "epsilon", {"median": "{auditor}"}, panel="{records} records"),
        "What is proved of randomized response",
        x=Axis("true epsilon"),
        y=Axis("median bound"),
        colors=" ".join(COLORS),
    )
    power = table_of(
        "Power: median bound, share of bounds above half of the truth, CPU seconds of an audit",
        powers.to_dicts(),
        "auditor {auditor} | records {records:,} | truth {epsilon:g} | median {median:.2f}"
        " | power {power:.0%} | seconds {seconds:.3f}",
        text=("auditor",),
    )
    tables = [_sizes(every), _beside(every, names), power]
    data = {"audits": audits, "worlds": every, "power": powers}
    return Shown(said, tables, data=data, figures={"power": drawing})


def _version(name: str) -> str:
    auditor_named(name)
    return getattr(sys.modules[name.partition(":")[0]], "VERSION", "no version named")


def _judged(audits: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each auditor and world: accused, refused, and whether size is refuted."""
    keys = ("auditor", "kind", "world", "epsilon")
    every = audits.group_by(keys, maintain_order=True).agg(
        audits=pl.len(),
        accused=(pl.col("bound") > pl.col("epsilon")).sum(),
        refused=pl.col("bound").is_null().sum(),
    )
    tests = [
        binomtest(row["accused"], row["audits"], SIGNIFICANCE, alternative="greater").pvalue
        for row in every.to_dicts()
    ]
    return every.with_columns(fails=pl.Series(tests) < LEVEL)


def _sizes(every: pl.DataFrame) -> StudyTable:
    kinds = every.group_by("auditor", "kind", maintain_order=True).agg(
        pl.sum("audits", "accused", "refused", "fails"), worlds=pl.len()
    )
    rows = [
        {**row, "interval": binomtest(row["accused"], row["audits"]).proportion_ci(0.95)}
        for row in kinds.to_dicts()
    ]
    return table_of(
        "Size: audits whose bound is above the truth",
        rows,
        "auditor {auditor} | kind of world {kind} | accused {accused} of {audits}"
        " | 95% interval {interval.low:.3f} to {interval.high:.3f} | refused {refused}"
        " | size fails in {fails} of {worlds}",
        text=("auditor", "kind of world"),
    )


def _beside(every: pl.DataFrame, names: Sequence[str]) -> StudyTable:
    """Return a row for each world, with a column for each auditor."""

    def told(row: CellRow) -> CellRow:
        refused = f", {row['refused']} refused" if row["refused"] else ""
        return {**row, "more": refused + " (fails)" * row["fails"]}

    index, cell = ("kind", "world", "epsilon"), "{accused} of {audits}{more}"
    wide = side_by_side(map(told, every.to_dicts()), index, "{auditor}", cell)
    columns = {"world": "{kind}: {world}", "truth": "{epsilon:g}"} | values_of(names)
    return table_of("Accused in each world", wide, columns, text=("world", *names))


def _powers(audits: pl.DataFrame) -> pl.DataFrame:
    """Return power and seconds on randomized response; a refusal proves 0."""
    bound = pl.col("bound").fill_null(0.0)
    return (
        audits.filter(pl.col("world").str.starts_with(RESPONSE))
        .group_by("auditor", "records", "epsilon", maintain_order=True)
        .agg(
            median=bound.median(),
            power=(bound > pl.col("epsilon") / 2.0).mean(),
            seconds=pl.median("seconds"),
        )
    )
