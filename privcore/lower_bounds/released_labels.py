"""True labels held against released ones: what a mechanism on labels gives away, at least.

No model is asked: the mechanism itself is tested, whatever anyone trains on the released labels.

*Theorem.* Assume that in a stratum s every row meets one (epsilon, delta)-DP channel W_s(released |
true) and a coin of its own. Let g map released values, in each stratum in its own way, to classes.
Let rows be chosen by anything but their own coins: true labels, strata, columns known before the
coins, other records with their coins. Then the right guesses, g(released) = true, of n_si chosen
rows of class i in s are independent, with a mean of at most

    n B = sum over s of n_s B(n_s1/n_s, n_s2/n_s, ...), where
    B(pi) = delta + (1 - delta) max over k of e^epsilon/(e^epsilon + k - 1) (mass of k commonest).

*Proof.* Let d_i be the chance that g is right of class i. For j in a set T of classes the events
"the guess is i", i in T without j, exclude each other and g = j, so (epsilon, delta)-DP gives

    sum over i in T without j of d_i <= e^epsilon (1 - d_j) + (|T| - 1) delta.                 (*)

With d_i = delta + (1 - delta) u_i this is (e^epsilon - 1) u_j + sum over T of u_i <= e^epsilon.
Take for T the classes with u_i > 0; the others add less than delta pi_i. On {u >= 0 with (*)} a
linear function is greatest at a vertex. There every u_j is 0 or the largest that the sum allows,
since each j has one tight constraint of its own, so k of them are equal, and (*) makes them
e^epsilon/(e^epsilon + k - 1). Randomized response among these k, revealed with probability delta,
attains the bound. ∎

Independent coins with the mean n p have P(right >= c) <= P(Bin(n, p) >= c) for c >= n p + 1
(Hoeffding 1956, Theorem 5), and the right side grows in p. So P(Bin(n, B) >= c), and 1 where
c < n B + 1, is a p-value, exact for any number of rows, classes and strata. And
e^(g right)/(1 - B + B e^g)^n is an e-value for every g >= 0 fixed from n, because a product of
means is at most the power of their mean, so nights multiply (`declarations_refuted`).

Four tests share the significance (`SHARES`). Each holds one fixed choice of rows and guesses
against every epsilon of a grid, and rejects an epsilon where it rejects every point up to it. B
grows in epsilon, so a bound exceeds the truth only if the first point at or above it is rejected.

*Fails* where channel and labels vary together within a stratum (Simpson: a mechanism that reads a
feature keeps epsilon in each channel and breaks it pooled), and where rows are copies. *Does not
say* that the declaration is kept: leaks of a few rows, of one value, or by a key are not seen.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from scipy.stats import binom

from privcore.exceptions import InvalidInputError
from privcore.guarantees import check_delta
from privcore.lower_bounds.fdp import check_significance
from privcore.lower_bounds.power import OFFSETS, ImaginedNight
from privcore.lower_bounds.question import leak_to_be_seen
from privcore.lower_bounds.windows import WINDOW_EPSILONS, ClaimedNight, Night

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

SIGNIFICANCE = 0.05
"""Of all four tests together, where nobody chooses another."""
SHARES = {"kept": 0.035, "key": 0.005, "column": 0.005, "ratio": 0.005}
"""Of that significance, by test."""
GAPS = (2.5, 10.0)
"""Bets of a night, over the root of its rows; fixed here, before any night."""
PAIRS = 8
"""Pairs of a released value and a class that `ratio` bets on."""
_STEPS = np.linspace(0.0, 1.0, 32)[:, None]
"""Powers of the caps that are tried, twice."""
_SURE = 2.65
"""Standard errors between B and the rate of a leak that a test at 0.035 finds in 4 of 5."""


def best_rate(records: Counts, *, epsilon: float, delta: float = 0.0) -> Floats:
    """Return B, the largest rate of right guesses, from counts of shape (..., classes) to (...).

    1 where there are no rows. The module has the theorem.

    Raises:
        InvalidInputError: epsilon below 0, or delta outside [0, 1).

    >>> round(float(best_rate(np.array([50, 50]), epsilon=1.0)), 4)
    0.7311
    >>> float(best_rate(np.array([90, 10]), epsilon=1.0))
    0.9
    """
    if not epsilon >= 0.0:
        raise InvalidInputError("epsilon", epsilon, "it is at least 0")
    check_delta(delta)
    return _rate(-np.sort(-np.asarray(records), axis=-1), epsilon, delta)


def _rate(descending: NDArray[np.number], epsilon: float, delta: float) -> Floats:
    mass = np.cumsum(descending, axis=-1, dtype=np.float64)
    kept = 1.0 / (1.0 + np.arange(mass.shape[-1]) * math.exp(-epsilon))
    total = np.maximum(mass[..., -1], 1.0)
    best = np.max(kept * mass, axis=-1) / total
    return np.where(mass[..., -1] > 0.0, delta + (1.0 - delta) * best, 1.0)


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a mechanism, and the grid on which it is tested.

    Attributes:
        epsilon: at which one label may be replaced; above 0.
        delta: beside it.
        significance: at which all tests together may be wrong.
    """

    epsilon: float
    delta: float = 0.0
    significance: float = SIGNIFICANCE

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf:
            raise InvalidInputError("epsilon", self.epsilon, "it is above 0 and finite")
        check_delta(self.delta)
        check_significance(self.significance)

    @property
    def shares(self) -> dict[str, float]:
        """Each test's share of the significance."""
        return {name: share * (self.significance / SIGNIFICANCE) for name, share in SHARES.items()}

    @property
    def grid(self) -> Floats:
        """`WINDOW_EPSILONS`, and the declared epsilon; ascending."""
        return np.unique(np.append(WINDOW_EPSILONS, self.epsilon))

    @property
    def place(self) -> int:
        """The declared epsilon's place on the grid."""
        return int(np.searchsorted(self.grid, self.epsilon))


@dataclass(frozen=True, slots=True, eq=False)
class Thinning:
    """How many rows of each class are looked at, at each point of a declaration's grid.

    Where classes are unequal, the commonest one alone is right often, and B says so. Then rows of
    common classes are left out, at random, up to a cap: they cost more than they prove. The cap of
    a stratum is found anew for every epsilon, from counts of true labels alone.

    Attributes:
        declared: the guarantee.
        records: shape (strata, classes), rows of each class that there are.
        sizes: shape (points, strata, classes), those that are looked at.
        rows: shape (points,), all that are looked at.
        rate: shape (points,), B of these rows; 1 where there are none.
    """

    declared: Declared
    records: Counts
    sizes: Counts
    rows: Counts
    rate: Floats

    @classmethod
    def of(cls, records: Counts, declared: Declared) -> Self:
        """Choose from counts of true labels, shape (strata, classes)."""
        grid = declared.grid
        sizes = np.stack([_sizes(records, float(one), declared) for one in grid])
        rates = np.stack(
            [
                best_rate(some, epsilon=float(one), delta=declared.delta)
                for some, one in zip(sizes, grid, strict=True)
            ]
        )
        by_stratum = sizes.sum(axis=2)
        rows = by_stratum.sum(axis=1)
        mean = (by_stratum * rates).sum(axis=1) / np.maximum(rows, 1)
        return cls(declared, records, sizes, rows, np.where(rows > 0, mean, 1.0))

    def drawn(self, right: Counts, random: np.random.Generator) -> Counts:
        """Return the right guesses among the rows that are looked at, shape (points,).

        Points with a larger cap have the same rows and more: rows that two points share are drawn
        once, so that chance moves their p-values together.

        Args:
            right: shape (strata, classes), of all rows.
            random: chooses the rows.
        """
        order = np.argsort(self.sizes, axis=0, kind="stable")
        found, seen = np.zeros_like(right), np.zeros_like(right)
        total = np.zeros(self.sizes.shape, dtype=np.int64)
        for at in order:
            wanted = np.take_along_axis(self.sizes, at[None], axis=0)[0]
            if (wanted > seen).any():
                left = right - found
                bad = self.records - seen - left
                found = found + random.hypergeometric(left, bad, wanted - seen)
                seen = wanted
            np.put_along_axis(total, at[None], found[None], axis=0)
        counted: Counts = total.sum(axis=(1, 2))
        return counted

    def pvalues(self, right: Counts) -> Floats:
        """Return the p-value against each point; 1 where Hoeffding's theorem says nothing.

        Args:
            right: shape (..., points), from `drawn`.
        """
        tail = binom.sf(right - 1, self.rows, self.rate)
        return np.where(right >= self.rows * self.rate + 1.0, tail, 1.0)

    def log_wealth(self, right: Counts) -> Floats:
        """Return a night's log e-values against each point, shape (gaps, points)."""
        gap = np.array(GAPS)[:, None] / np.sqrt(np.maximum(self.rows, 1))
        wealth: Floats = gap * right - self.rows * np.log1p(self.rate * np.expm1(gap))
        return wealth

    def sees_from(self) -> float:
        """Return the least randomized response that `kept` refutes in 4 of 5; infinite if none.

        It follows from the counts of true labels alone. Randomized response over all K classes of
        the table keeps a label with chance e^epsilon/(e^epsilon + K - 1) wherever it lies, so the
        right guesses are binomial.
        """
        rows, rate = int(self.rows[self.declared.place]), float(self.rate[self.declared.place])
        if rows == 0 or rate >= 1.0:
            return math.inf
        share = self.declared.shares["kept"]
        needed = max(math.ceil(rows * rate + 1.0), int(binom.isf(share, rows, rate)) + 1)
        if needed > rows:
            return math.inf
        kept = float(betaincinv(needed, rows - needed + 1, 0.8))
        odds = math.log(kept) - math.log1p(-kept) if kept < 1.0 else math.inf
        return odds + math.log(_classes(self.records) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """Guesses at true labels, one for each row.

    Attributes:
        records: shape (strata, classes), rows of each class.
        right: the same shape, how many of their guesses are right.
    """

    records: Counts
    right: Counts

    def pvalues(self, declared: Declared, random: np.random.Generator) -> Floats:
        """Return the p-value against each point of the declaration's grid."""
        thinning = Thinning.of(self.records, declared)
        return thinning.pvalues(thinning.drawn(self.right, random))


def _classes(records: Counts) -> int:
    """Return K of a table; a channel that reads one class is taken as one of two."""
    return max(int((records.sum(axis=0) > 0).sum()), 2)


def _sizes(records: Counts, epsilon: float, declared: Declared) -> Counts:
    """Return how many rows of each class are looked at: those up to the stratum's cap.

    The cap needs the lowest rate of right guesses to be refuted. A stratum that could not refute a
    leak that has to be seen is left out.
    """
    descending = -np.sort(-records, axis=1)
    least = np.where(descending > 0, descending, descending[:, :1]).min(axis=1)
    low, high = (np.maximum(of, 1).astype(float) for of in (least, descending[:, 0]))
    alike = max(int(records.sum()), 1) / np.maximum(records.sum(axis=1), 1)
    for _ in range(2):
        tried = np.rint(low * (high / low) ** _STEPS).astype(np.int64)  # (tried, strata)
        sizes = np.minimum(descending, tried[:, :, None])
        rate = _rate(sizes, epsilon, declared.delta)
        rows = np.maximum(sizes.sum(axis=2) * alike, 1.0)
        best = (rate + _SURE * np.sqrt(rate * (1.0 - rate) / rows)).argmin(axis=0)[None]
        caps, rates = (np.take_along_axis(of, best, axis=0)[0] for of in (tried, rate))
        low, high = (
            np.take_along_axis(tried, np.clip(best + step, 0, len(tried) - 1), axis=0)[0].astype(
                float
            )
            for step in (-1, 1)
        )
    leak = max(leak_to_be_seen(declared.epsilon), leak_to_be_seen(epsilon))
    useful = rates < 1.0 / (1.0 + (_classes(records) - 1) * math.exp(-leak))
    return np.minimum(records, np.where(useful, caps, 0)[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """Bets that a released value is likelier under one class than its guarantee allows.

    (epsilon, delta)-DP gives W(j | i) <= e^epsilon W(j | not i) + delta, where "not i" are the
    stratum's rows of other classes. Half of the rows, chosen at random, give an alternative V: the
    rates of j under i and not i. The e-value on the other half is V's likelihood over that of W*,
    the pair in the half-plane {a <= e^epsilon b + delta} that is nearest to V by Kullback and
    Leibler with the halves' sizes as weights. That is an e-value since the half-plane is convex
    (Turner, Ly and Gruenwald 2021, Theorem 1; each row's factor is linear in its own rate, so rows
    of "not i" need not be alike). Strata multiply. The mean over the `PAIRS` that bet most on the
    first half is an e-value, too, because that choice saw nothing of the other.

    Attributes:
        learned: shape (strata, classes, released values), rows of the first half.
        tested: the same of the other half.
    """

    learned: Counts
    tested: Counts

    def pvalues(self, declared: Declared) -> Floats:
        """Return 1 over the e-value against each point of the declaration's grid, at most 1."""
        pairs = self._pairs(declared)
        logs = self._log_evalues(pairs, declared.grid, declared.delta, self.tested)
        most = logs.max(axis=1)
        mean = most + np.log(np.exp(logs - most[:, None]).mean(axis=1))
        pvalues: Floats = np.exp(-np.maximum(mean, 0.0))
        return pvalues

    def _pairs(self, declared: Declared) -> Counts:
        """Return places (class, released value) of the bets that win most on the first half."""
        _, classes, values = self.learned.shape
        every = np.indices((classes, values)).reshape(2, -1)
        rates = self.learned.sum(axis=0) / np.maximum(self.learned.sum(axis=(0, 2)), 1)[:, None]
        # Of very many pairs those are looked at whose ratio is largest, by a rate's standard error.
        if every.shape[1] > 8 * PAIRS * PAIRS:
            excess = rates - math.exp(declared.epsilon) * rates.mean(axis=0)
            error = np.sqrt((rates + 1e-9) / np.maximum(self.learned.sum(axis=(0, 2)), 1)[:, None])
            some = np.argsort(-(excess / error).ravel(), kind="stable")[: 8 * PAIRS * PAIRS]
            every = every[:, some]
        at = np.array([declared.epsilon])
        won = self._log_evalues(every, at, declared.delta, self.learned)[0]
        return every[:, np.argsort(-won, kind="stable")[:PAIRS]]

    def _log_evalues(self, pairs: Counts, grid: Floats, delta: float, seen: Counts) -> Floats:
        """Return log e-values on rows that were seen, shape (points, pairs)."""
        (in_class, not_in), (hits, others) = _by_pair(seen, pairs)
        (was_in, was_not), (had, had_others) = _by_pair(self.learned, pairs)
        pooled = (had + had_others + 0.5) / (was_in + was_not + 1.0)
        ours, theirs = (had + pooled) / (was_in + 1.0), (had_others + pooled) / (was_not + 1.0)
        factor = np.exp(grid)[:, None, None]
        least = _nearest(ours, theirs, in_class, not_in, factor, delta)
        most = np.minimum(factor * least + delta, 1.0)
        bets = (ours > factor * theirs + delta) & (in_class > 0) & (not_in > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            won = _gain(hits, in_class, ours, most) + _gain(others, not_in, theirs, least)
        logs: Floats = np.where(bets, won, 0.0).sum(axis=2)
        return logs


def _by_pair(counts: Counts, pairs: Counts) -> tuple[tuple[Counts, Counts], tuple[Counts, Counts]]:
    """Return rows in and not in the pairs' classes, and those with its value; (pairs, strata)."""
    inside, hits = counts.sum(axis=2).T[pairs[0]], counts.transpose(1, 2, 0)[pairs[0], pairs[1]]
    rows, value = counts.sum(axis=(1, 2)), counts.sum(axis=1).T[pairs[1]]
    return (inside, rows - inside), (hits, value - hits)


def _gain(hits: Counts, rows: Counts, rate: Floats, null: Floats) -> Floats:
    """Return the log-likelihood of one rate over another's."""
    missed = rows - hits
    yes = np.where(hits > 0, hits * np.log(rate / null), 0.0)
    return yes + np.where(missed > 0, missed * np.log((1.0 - rate) / (1.0 - null)), 0.0)


def _nearest(
    ours: Floats, theirs: Floats, in_class: Counts, not_in: Counts, factor: Floats, delta: float
) -> Floats:
    """Return the rate b of the point (factor b + delta, b) nearest to (ours, theirs).

    The weighted divergence is convex in b: its derivative's only root is bisected.
    """
    shape = np.broadcast_shapes(ours.shape, factor.shape)
    low, high = np.zeros(shape), np.broadcast_to((1.0 - delta) / factor, shape)
    for _ in range(60):
        b = (low + high) / 2.0
        a = factor * b + delta
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = in_class * factor * ((1.0 - ours) / (1.0 - a) - ours / a)
            slope += not_in * ((1.0 - theirs) / (1.0 - b) - theirs / b)
        low, high = np.where(slope < 0.0, b, low), np.where(slope < 0.0, high, b)
    middle: Floats = (low + high) / 2.0
    return middle


@dataclass(frozen=True, slots=True, eq=False)
class LabelCheck:
    """What true and released labels say of a declaration.

    Attributes:
        epsilon_lower: the largest epsilon of the grid that is rejected with all below; a lower
            bound on the mechanism's loss at the declared delta that is wrong with a chance of at
            most the significance. 0 is silence.
        pvalues: by test, against the declared epsilon; it is rejected at the share of the test.
        rows, right, rate: of `kept` at the declared epsilon, after thinning.
        sees_from: the least randomized response that `kept` would have refuted in 4 of 5.
    """

    declared: Declared
    epsilon_lower: float
    pvalues: Mapping[str, float]
    rows: int
    right: int
    rate: float
    sees_from: float

    @property
    def refuted_by(self) -> str | None:
        """The test that refutes the declaration by most; None where none does."""
        beyond = {name: p / self.declared.shares[name] for name, p in self.pvalues.items()}
        name = min(beyond, key=lambda one: beyond[one])
        return name if beyond[name] <= 1.0 else None

    @property
    def pvalue(self) -> float:
        """The smallest significance at which the tests together reject the declared epsilon."""
        beyond = min(p / self.declared.shares[name] for name, p in self.pvalues.items())
        return min(1.0, self.declared.significance * beyond)


def check_counts(
    counts: Counts, *, same: Counts, declared: Declared, column: Guesses | None = None, seed: int
) -> LabelCheck:
    """Return what rows, one for each record, say of a declaration.

    Args:
        counts: shape (strata, classes, released values), rows.
        same: shape (classes,), the released value that is each class; -1 where none is.
        declared: the guarantee.
        column: guesses by one column that were chosen without their rows (`chosen_guesses`); None
            where no columns were looked at.
        seed: of the halves and of thinning; it was chosen without a look at the released labels.

    Raises:
        InvalidInputError: shapes that do not fit each other.
    """
    if counts.ndim != 3 or same.shape != counts.shape[1:2]:
        raise InvalidInputError("shape of counts", counts.shape, "(strata, classes, values)")
    random = np.random.default_rng(seed)
    kept = kept_guesses(counts, same)
    learned = random.binomial(counts, 0.5)
    thinning = Thinning.of(kept.records, declared)
    right = thinning.drawn(kept.right, random)
    curves = {
        "kept": thinning.pvalues(right),
        "key": _keyed(learned, counts - learned).pvalues(declared, random),
        "ratio": Ratios(learned, counts - learned).pvalues(declared),
    }
    if column is not None:
        curves["column"] = column.pvalues(declared, random)
    # Rejected is what every point up to it rejects.
    upwards = {name: np.maximum.accumulate(curve) for name, curve in curves.items()}
    shares = declared.shares
    reached = max(int((curve <= shares[name]).sum()) for name, curve in upwards.items())
    place = declared.place
    return LabelCheck(
        declared,
        float(declared.grid[reached - 1]) if reached else 0.0,
        {name: float(upwards[name][place]) for name in SHARES if name in upwards},
        int(thinning.rows[place]),
        int(right[place]),
        float(thinning.rate[place]),
        thinning.sees_from(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LabelNight:
    """One night of labels that are new that night, beside the other nights of its mechanism.

    Attributes:
        window: log e-values on `WINDOW_EPSILONS`, shape (gaps, points); delta has no price, since B
            holds it.
        ceiling: shape (points,), the largest that they could have been.
        claimed: log e-values against the declared epsilon itself.
        imagined: what these would be, if all labels showed a leak.
        epsilon_ceiling: the bound, if every label had been released as it is.
    """

    window: Night
    ceiling: Floats
    claimed: ClaimedNight
    imagined: ImaginedNight
    epsilon_ceiling: float


def night_of_labels(
    counts: Counts, *, same: Counts, declared: Declared, random: np.random.Generator
) -> LabelNight:
    """Return what `kept` says of one night, on all points of the grid (`check_counts`)."""
    kept, place = kept_guesses(counts, same), declared.place
    thinning = Thinning.of(kept.records, declared)
    wealth, most = (
        thinning.log_wealth(right) for right in (thinning.drawn(kept.right, random), thinning.rows)
    )
    on_grid = np.isin(declared.grid, WINDOW_EPSILONS)
    rejected = np.maximum.accumulate(thinning.pvalues(thinning.rows)) <= declared.shares["kept"]
    rows, classes = int(thinning.rows[place]), _classes(kept.records)
    keeps = 1.0 / (1.0 + (classes - 1) * np.exp(-declared.epsilon - np.array(OFFSETS)))
    gap = np.array(GAPS)[:, None] / math.sqrt(max(rows, 1))
    at_no_right = thinning.log_wealth(np.zeros_like(thinning.rows))[:, [place]]
    imagined = ImaginedNight(
        declared.epsilon,
        at_no_right + gap * rows * keeps,
        gap**2 * rows * keeps * (1.0 - keeps),
        0.0,
    )
    return LabelNight(
        Night(wealth[:, on_grid], 0.0),
        most[:, on_grid].max(axis=0),
        ClaimedNight(declared.epsilon, wealth[:, place], 0.0),
        imagined,
        float(declared.grid[rejected.sum() - 1]) if rejected.any() else 0.0,
    )


def kept_guesses(counts: Counts, same: Counts) -> Guesses:
    """Return the guess that every released value is the true label."""
    right = np.where(same >= 0, counts[:, np.arange(len(same)), same], 0)
    return Guesses(counts.sum(axis=2), right)


def _keyed(learned: Counts, tested: Counts) -> Guesses:
    """Return guesses by a key: each released value read as the class that makes it likeliest.

    The likelihoods are those of one half of the rows; a stratum's few rows are helped by all.
    """
    every = learned.sum(axis=0)
    overall = (every + 0.5) / (every.sum(axis=1, keepdims=True) + 1.0)
    likely = (learned + overall) / (learned.sum(axis=2, keepdims=True) + 1.0)
    read = likely.argmax(axis=1)  # (strata, values)
    mine = read[:, None, :] == np.arange(learned.shape[1])[None, :, None]
    return Guesses(tested.sum(axis=2), (tested * mine).sum(axis=2))
