"""Likely faults of supplied probabilities: remarks in the record, which accuse nobody.

Another system computed them, and how they were written is not known. Rounding, classes in another
order and a holdout that training saw leave traces, none of which is certain: an honest model may
leave them too. So they are sentences beside the verdict, which say what to look at.
"""

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import misranked, ranks_too_well
from workers.labels.columns import Batch
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.scores.score_columns import digits_kept, sums_vary
from workers.sources.scores.supplied import ScoreSource
from workers.sources.secrets import checkpoints_of
from workers.sources.source import SharedScores, Source

_LOOKED_AT = 4096
"""Rows of a row group that are looked at, at equal distances, and as many of its holdout."""
_LEAST = 100
"""Records, without which nothing can be said."""
_MOST_CLASSES = 50
_FITS_BETTER = 5.0
"""Standard errors by which another order of the classes fits the labels better."""
_STEP = 2.0**-24  # whole multiples add to the bit
_CERTAIN = 6.0
"""Standard errors; by chance more is seen in one of 10^9 audits."""
_FEWER = 0.5
_AS_CLAIMED = 0.8
_SMALLEST = 1e-6
_SUMS, _LOG_ODDS = -1, -2
"""In place of digits: probabilities that do not add up to one, and log-odds of several columns."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of a model's likeliest class: how many were seen, and how many it expected.

    Args:
        records: how many.
        observed: of them wrong.
        expected: sum of one less the likeliest class's probability, in steps of 2^-24.
        variance: of the number of errors, if the probabilities are right; in steps of 2^-24.
        misranked: records on the wrong side of the best threshold, about (`misranked`).
    """

    records: int = 0
    observed: int = 0
    expected: int = 0
    variance: int = 0
    misranked: int = 0

    def __add__(self, other: "Errors") -> "Errors":
        """Return the errors among both sets of records."""
        return Errors(
            self.records + other.records,
            self.observed + other.observed,
            self.expected + other.expected,
            self.variance + other.variance,
            self.misranked + other.misranked,
        )

    @classmethod
    def of(cls, predicted: NDArray[np.float64], labels: NDArray[np.int64]) -> "Errors":
        """Return the errors of probabilities of shape (records, classes)."""
        likeliest = predicted.argmax(axis=1)
        held = predicted[np.arange(labels.size), likeliest]
        return cls(
            int(labels.size),
            int(np.count_nonzero(likeliest != labels)),
            _steps(1.0 - held),
            _steps(held * (1.0 - held)),
            misranked(predicted, labels),
        )

    @property
    def claimed(self) -> float:
        """Number of errors that the probabilities themselves expect."""
        return self.expected * _STEP

    def fewer_than(self, expected: float, variance: float) -> bool:
        """Return whether there are less than half of the expected, beyond chance."""
        far = _CERTAIN * math.sqrt(variance) < expected - self.observed
        return far and self.observed < _FEWER * expected


@dataclass(frozen=True, slots=True)
class ScoreDiagnostics:
    """Signs of faults in a table's probabilities; they add as a tally does.

    Attributes:
        looked: row groups with enough records.
        digits: row groups in which a role's probabilities have so few digits; 0 stands for 16 bits,
            and numbers below it for `_SUMS` and `_LOG_ODDS`.
        orders: row groups in which another order of the classes fits a role's better.
        errors: of target and proxy, on holdout records.
    """

    looked: int = 0
    digits: Counter[tuple[str, int]] = field(default_factory=Counter)
    orders: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)
    errors: tuple[Errors, Errors] = (Errors(), Errors())

    def __add__(self, other: "ScoreDiagnostics") -> "ScoreDiagnostics":
        """Return what was seen in both."""
        return ScoreDiagnostics(
            self.looked + other.looked,
            self.digits + other.digits,
            self.orders + other.orders,
            (self.errors[0] + other.errors[0], self.errors[1] + other.errors[1]),
        )

    def as_json(self) -> list[Any]:
        """Return it as JSON holds it."""
        return [
            self.looked,
            list(self.digits.items()),
            list(self.orders.items()),
            [dataclasses.astuple(each) for each in self.errors],
        ]

    @classmethod
    def from_json(cls, content: list[Any]) -> "ScoreDiagnostics":
        """Return what `as_json` wrote."""
        looked, digits, orders, (target, proxy) = content
        return cls(
            looked,
            Counter({(role, kept): groups for (role, kept), groups in digits}),
            Counter({(role, tuple(order)): groups for (role, order), groups in orders}),
            (Errors(*target), Errors(*proxy)),
        )

    def remarks(self, source: Source) -> tuple[Remark, ...]:
        """Return what was seen in most row groups."""
        roles: dict[int, list[str]] = {}
        for (role, digits), groups in sorted(self.digits.items()):
            if 2 * groups > self.looked:
                roles.setdefault(digits, []).append(f"{role}'s")
        told = [
            Remark(
                RemarkKind.SUMS_VARY if digits < 0 else RemarkKind.SCORES_ROUNDED,
                _rounded(" and the ".join(whose), digits),
            )
            for digits, whose in roles.items()
        ]
        for (role, order), groups in sorted(self.orders.items()):
            if 2 * groups > self.looked:
                known = [str(source.label.classes[place]) for place in order]
                told += remarked(
                    RemarkKind.CLASSES_EXCHANGED,
                    f"The {role}'s probabilities fit the labels far better if their classes are "
                    f"in the order {', '.join(known)}: see scores.classes.",
                )
        if self.holdout_known():
            target, proxy = self.errors
            told += remarked(
                RemarkKind.HOLDOUT_SUSPECT,
                f"holdout_suspect: the target errs on {target.observed:,} of {target.records:,} "
                f"holdout labels, where its own probabilities expect {target.claimed:,.0f} errors "
                f"and the proxy makes {proxy.observed:,}. If training saw the holdout, a small "
                "bound concludes nothing: see that scores.split or scores.holdout says what was "
                "left out.",
            )
        return tuple(told)

    def holdout_known(self) -> bool:
        """Return whether the target knows holdout labels better than a model that never saw them.

        It errs less than half as often as its own probabilities expect, while the proxy errs about
        as often as its own do: whatever makes a model claim too little would make both. Or it errs
        less than three quarters as often as the proxy (`ranks_too_well`). A model that knows
        holdout labels and claims it is seen by the second alone; one that knows few is not seen.
        """
        target, proxy = self.errors
        modest = target.fewer_than(target.claimed, target.variance * _STEP)
        honest_proxy = proxy.observed >= _AS_CLAIMED * proxy.claimed
        return (modest and honest_proxy) or ranks_too_well(target.misranked, proxy.misranked)


def diagnose(source: Source, batch: Batch, shared: SharedScores) -> ScoreDiagnostics:
    """Return what some rows of a row group say of a score table's probabilities.

    Args:
        source: whose probabilities the batch holds. Where it is one of predicted numbers, nothing
            is looked at; of models, whether their answers add up to one.
        batch: consecutive rows; only those that begin a row group are looked at.
        shared: what was computed of them already.
    """
    both = checkpoints_of(source)
    if both is not None and batch.place[2] == 0:
        vary = int(both.sums_vary(batch, shared))
        return ScoreDiagnostics(vary, Counter({("target", _SUMS): vary} if vary else {}))
    if not isinstance(source, ScoreSource) or not source.gives_chances or batch.place[2] != 0:
        return ScoreDiagnostics()
    read, (training, control) = source.labels(batch)[0], source.arms(batch)
    scored = source.probabilities(batch, shared)
    held = _some(np.flatnonzero((read >= 0) & control))
    errors = Errors.of(scored[0][held], read[held]), Errors.of(scored[1][held], read[held])
    chosen = _some(np.arange(batch.table.num_rows))
    labels, models = read[chosen], [model[chosen] for model in scored]
    played = (labels >= 0) & (training | control)[chosen]
    if np.count_nonzero(played) < _LEAST:
        return ScoreDiagnostics(errors=errors)
    digits: Counter[tuple[str, int]] = Counter()
    orders: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for role, predicted in zip(("target", "proxy"), models, strict=True):
        columns = source.tables.columns_of(role)
        kept = digits_kept(batch, columns, chosen[played])
        if role == "target" and kept is None and sums_vary(batch, columns, chosen[played]):
            kept = _LOG_ODDS if source.tables.scale == "log_odds" else _SUMS
        if kept is not None:
            digits[role, kept] += 1
        order = _better_order(predicted[played], labels[played])
        if order is not None:
            orders[role, order] += 1
    return ScoreDiagnostics(1, digits, orders, errors)


def _some(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return as many of some rows as are looked at, at equal distances."""
    places = np.linspace(0, max(rows.size - 1, 0), min(_LOOKED_AT, rows.size))
    return rows[np.unique(places.astype(np.int64))]


def _rounded(whose: str, digits: int) -> str:
    if digits < 0:
        found = "log-odds are in a column for each class"
        found = found if digits == _LOG_ODDS else "probabilities do not add up to one in all rows"
        return (
            f"The {whose} {found}: what is added to all classes of a row, or multiplies them, is "
            "taken out before the audit. If anyone gets the columns as they are, it may give away "
            "more."
        )
    how = f"have no more than {digits} digits" if digits else "have no more than 16 bits"
    return (
        f"The {whose} probabilities {how}: if they were rounded, which hides what training left "
        "in the rest, write them unrounded, as 32 bits (float)."
    )


def _better_order(
    predicted: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[int, ...] | None:
    """Return the class that each column of probabilities fits, if that is not its own."""
    classes = predicted.shape[1]
    if classes > _MOST_CLASSES:
        return None
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # few audits are of tables

    held = np.log(np.maximum(predicted, _SMALLEST))
    fit = np.zeros((classes, classes))
    np.add.at(fit, labels, held)
    columns = linear_sum_assignment(fit, maximize=True)[1]  # of each class
    gain = held[np.arange(labels.size), columns[labels]] - held[np.arange(labels.size), labels]
    error = gain.std() / math.sqrt(gain.size)
    if not gain.mean() > _FITS_BETTER * error > 0.0:
        return None
    return tuple(int(each) for each in np.argsort(columns))


def _steps(values: NDArray[np.float64]) -> int:
    return int(np.rint(values / _STEP).astype(np.int64).sum())
