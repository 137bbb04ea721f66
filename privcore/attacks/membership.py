"""Membership: which records was a model trained on?

*Pairs.* The secret is here a whole record: whether it was in the training data. Each training
record is set beside a holdout record of the same label probability by the proxy, drawn at random;
of the two the one whose label the target holds likelier is predicted to be the member. Where
members and holdout were split at random, that is a coin's guess unless training made the
difference.

*The paper's game* asks: trained on, or fresh from the same distribution? Its scores compare the
audited model with one reference model. Each is a fixed choice, and centred: positive says
"member", negative "not a member". They are the attacks that "Observational Auditing of Label
Privacy" (arXiv:2511.14084) is compared with, and feed `membership_inference`. The reference model
was trained on other records of the same distribution: if it saw one of a pair, the score betrays
the bit by itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from privcore.attacks.game import Deal, Tally, outcome_cells, replay
from privcore.attacks.hashing import record_streams
from privcore.attacks.matching import SHARES, sureness_needed
from privcore.attacks.odds import OddsCells, OddsTally
from privcore.attacks.tallies import Tallies
from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import checked
from privcore.mechanisms.parameter_checks import check_labels, check_pair


@dataclass(frozen=True, slots=True)
class CalibratedLossScore:
    """The reference model's loss minus the target's, less a threshold.

    Watson, Guo, Cormode and Sablayrolles 2022, "On the Importance of Difficulty Calibration in
    Membership Inference Attacks" (arXiv:2111.08440), equation 3 with one reference model: a record
    that is hard for every model is no member for being hard, nor one that is easy.

    Args:
        threshold: what the target's loss falls below the reference's for a record that is as
            likely a member as not, in units of the loss. 0 is right where both models do equally
            well on fresh records; otherwise take the median of the difference over a population
            apart from the game's records.
    """

    threshold: float = 0.0
    name: ClassVar[str] = "calibrated_loss"

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise InvalidInputError("threshold", self.threshold, "it is a finite difference")

    def __call__(
        self, target_losses: NDArray[np.float64], reference_losses: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the scores; all three arrays have shape (records,)."""
        given = {"target_losses": target_losses, "reference_losses": reference_losses}
        largest = np.finfo(np.float64).max
        target, reference = _of_both(-largest, largest, "a loss is a finite number", **given)
        return reference - target - self.threshold


@dataclass(frozen=True, slots=True)
class RmiaScore:
    """RMIA, offline, one model: how many population records a record's likelihood ratio outdoes.

    Zarifzadeh, Liu and Shokri 2024, "Low-Cost High-Power Membership Inference Attacks"
    (arXiv:2312.03262). With the probabilities that a model gives to a record's own label,

        share(x) = P over z of [ p(x|target) / p(x) >= dominance * p(z|target) / p(z) ],
        p(x) = ((1 + a) p(x|reference) + (1 - a)) / 2, and p(z) likewise,

    where p(x) stands for the mean over models with and without x: the offline variant puts
    a p(x|reference) + 1 - a for a model that was trained on x. A population record of ratio 0 is
    outdone by every record. The score is log-odds of the smoothed share, (count + 1/2) /
    (population + 1), less the log-odds of the threshold. That is the paper's order, and finite;
    log-odds only keep the most confident records apart, which all have shares near 1.

    Args:
        dominance: the paper's factor gamma, above 0.
        slope: the paper's a, in [0, 1]; 1 takes p(x) = p(x|reference). The paper tunes it between
            two reference models, before any game.
        threshold: share at which a record is as likely a member as not, the paper's beta. With
            dominance 1 a fresh record's share is uniform, and 1/2 calls half of them members; a
            larger dominance wants a smaller threshold, taken from another population.
    """

    dominance: float = 1.0
    slope: float = 1.0
    threshold: float = 0.5
    name: ClassVar[str] = "rmia"

    def __post_init__(self) -> None:
        if not 0.0 < self.dominance < np.inf:
            raise InvalidInputError("dominance", self.dominance, "it is a finite factor above 0")
        if not 0.0 <= self.slope <= 1.0:
            raise InvalidInputError("slope", self.slope, "it lies in [0, 1]")
        if not 0.0 < self.threshold < 1.0:
            raise InvalidInputError("threshold", self.threshold, "a share lies in (0, 1)")

    def __call__(
        self,
        target: NDArray[np.float64],
        reference: NDArray[np.float64],
        *,
        population_target: NDArray[np.float64],
        population_reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the scores, shape (records,).

        Args:
            target: shape (records,), p(x|target).
            reference: shape (records,), p(x|reference).
            population_target: shape (population,), p(z|target).
            population_reference: shape (population,), p(z|reference).

        Assumptions: the population has the records' distribution; neither model was trained on
        it, and no record of the game is in it, not even one that is never shown. Both records of
        a pair are held against the same population: two samples differ, and would tell them apart.

        Raises:
            InvalidInputError: probabilities that are NaN or outside [0, 1], shapes that differ, an
                empty population, or a reference probability of 0 with slope 1, which has no ratio.
        """
        ratio = self._ratio(target=target, reference=reference)
        population = self._ratio(
            population_target=population_target, population_reference=population_reference
        )
        if population.size == 0:
            raise InvalidInputError("population_target", (0,), "the population has records")
        outdone = np.searchsorted(np.sort(self.dominance * population), ratio, side="right")
        share = (outdone + 0.5) / (population.size + 1.0)
        scores: NDArray[np.float64] = logit(share) - logit(self.threshold)
        return scores

    def _ratio(self, **given: NDArray[np.float64]) -> NDArray[np.float64]:
        """Likelihood of every record under the target, over its likelihood without knowing."""
        target, reference = _of_both(0.0, 1.0, "a probability lies in [0, 1]", **given)
        mean = ((1.0 + self.slope) * reference + (1.0 - self.slope)) / 2.0
        if np.any(mean == 0.0):
            rule = "with slope 1 a record that the reference holds impossible has no ratio"
            raise InvalidInputError(list(given)[1], 0.0, rule)
        return target / mean


def _of_both(
    low: float, high: float, rule: str, /, **given: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two sides' values, one per record, if all of them lie in [low, high]."""
    (name, one), (other_name, other) = given.items()
    if one.ndim != 1:
        raise InvalidInputError(name, one.shape, "it has one value per record")
    if other.shape != one.shape:
        raise InvalidInputError(other_name, other.shape, f"it has the shape of {name}, {one.shape}")
    return checked(name, one, low, high, rule), checked(other_name, other, low, high, rule)


def membership_inference(
    members: NDArray[np.float64],
    nonmembers: NDArray[np.float64],
    *,
    repetitions: int,
    key: int,
    indices: NDArray[np.integer] | None = None,
) -> Tally:
    """Show one record of each pair, `repetitions` times, and count the guesses at membership.

    The observational game of Kalemaj et al. 2025, "Observational Auditing of Label Privacy"
    (arXiv:2511.14084), for whole records. A pair is a training record and a record that training
    never saw. A fair bit, flipped after training, decides which one the adversary is shown; it
    guesses "member" where the shown record's score is positive, "not a member" where it is
    negative, and by a fair coin at exactly 0. Its confidence is `|score|`.

    Flipping after training makes the bit fair and independent of the model; what must be argued is
    that *the shown record* does not betray it either. Assumptions:

    1. Both records of a pair have the same distribution given the rest of the training data, and
       pairs are independent. Fresh records of the same source and time are; generated ones are
       up to the generator's total-variation distance, which is the claim's `shift`. Then a shown
       record is as likely under either bit, and only the model can tell: if training is
       epsilon-DP for *replacing* a record, the odds of the bit given the model, the shown records
       and all other bits are at most e^epsilon.
    2. A score is a function, fixed beforehand, of the model, of the shown record and of data apart
       from all pairs: reference models and population were drawn without looking at them.

    The scores `members - nonmembers` and their negative play the game in which both records are
    shown in random order; the same odds bound it, and no threshold has to be chosen.

    Args:
        members: shape (pairs,), scores of the training records; any unit, infinite if certain.
        nonmembers: shape (pairs,), scores of the records that training never saw.
        repetitions: how often the game is replayed with fresh bits.
        key: the random stream, from `stream_key`.
        indices: shape (pairs,), the pairs' indices in the stream; 0, 1, ... by default. With
            them any sharding of the pairs gives the same tally.

    The answer does not say how much a *stronger* score would have found, and one of a drifted or
    badly generated set of non-members says nothing about training at all.

    Raises:
        InvalidInputError: scores that are NaN or not one per pair, no repetitions.

    >>> import numpy as np
    >>> from privcore.attacks import stream_key
    >>> tally = membership_inference(
    ...     np.array([3.0, 2.0]), np.array([-1.0, -0.5]), repetitions=2, key=stream_key(0, "game")
    ... )
    >>> tally.correct.sum(axis=1).tolist()
    [2, 2]
    """
    scores = {"members": members, "nonmembers": nonmembers}
    members, nonmembers = _of_both(-np.inf, np.inf, "a score is a number", **scores)
    pairs = np.stack([nonmembers, members], axis=1)
    cells = outcome_cells(pairs, np.ones(members.size, dtype=np.int64))
    deal = Deal(
        # One counterfactual, the non-member, has no border to another.
        outcomes=np.ascontiguousarray(cells[:, [0, 2]]),
        borders=np.zeros((0, members.size), dtype=np.uint64),
        streams=record_streams(members.size, key=key, indices=indices),
    )
    return replay(deal, repetitions=repetitions)


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Pairs of a training record and a holdout record whose target log-odds differ.

    Attributes:
        records: shape (1,), pairs.
        right: shape (1,), of these, in which the training record's are the larger.
    """

    records: NDArray[np.int64]
    right: NDArray[np.int64]

    def all_right(self) -> "Paired":
        """Return the pairs had every prediction been right."""
        return Paired(self.records, self.records)


def own_label(
    target: NDArray[np.float64], proxy: NDArray[np.float64], labels: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return both models' probabilities of each record's own label, as `odds_tally` takes them.

    The tally of these has no wrong labels: it counts records by the proxy's and the target's
    log-odds of their own label, which is what `pair` compares.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: the same of the model that never saw these records.
        labels: shape (records,), class indices from 0.

    Returns:
        Target and proxy, shape (records, 2), and labels, shape (records,), all 1.
    """
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    rows = np.arange(labels.size)
    of_target, of_proxy = (
        np.stack([1.0 - own, own], axis=1) for own in (target[rows, labels], proxy[rows, labels])
    )
    return of_target, of_proxy, np.ones(labels.size, dtype=np.int64)


def pair(
    training: OddsTally, control: OddsTally, *, random: np.random.Generator
) -> tuple[Paired, ...]:
    """Pair training records with holdout records; one set of pairs for each of `SHARES`.

    Args:
        training: of `own_label`'s probabilities of the training records.
        control: of the holdout records.
        random: the audit's stream: which records are paired, and with which.

    How: within each bin of the proxy's log-odds, as many records as the smaller arm has are drawn
    from either arm and paired at random. Pairs in the same bin of the target's log-odds tell
    nothing and are left out. The sets hold the pairs whose log-odds differ most. Which of a pair
    is the member is looked at last: it decides neither bins nor pairs nor sets.

    *Why it tests.* Let the arms be a random split of records, and a pair's bit which of its two
    records was trained on. Given the pairs, the bits are fair and independent. A mechanism that is
    epsilon-DP for *replacing a record* multiplies the odds of a bit, given its output and all other
    bits, by at most e^epsilon: the two training sets differ in one record. So each prediction is
    right with probability at most e^epsilon / (1 + e^epsilon) whatever the other bits are. This is
    the label game with two classes of prior 1/2, known exactly: `Stakes` has its proof with delta.

    *Assumes* that training and holdout records were split at random, apart from what the proxy
    knows; nothing of the proxy and nothing of the target. *Does not say* how much a stronger attack
    would have told, and nothing of a holdout of another source or time.
    """
    lead, made = _leads(training, control, random)
    told = lead != 0.0
    lead, made = lead[told], made[told]
    if not lead.size:
        return tuple(Paired(np.zeros(0, np.int64), np.zeros(0, np.int64)) for _ in SHARES)
    sets = []
    for least in sureness_needed(np.abs(lead), made):
        chosen = np.abs(lead) >= least
        right = int(made[chosen & (lead > 0.0)].sum())
        sets.append(Paired(np.array([made[chosen].sum()]), np.array([right])))
    return tuple(sets)


def membership_tallies(
    training: OddsTally,
    control: OddsTally,
    *,
    repetitions: int,
    key: int,
    random: np.random.Generator,
) -> Tallies:
    """Return the membership game on pairs, and on pairs of holdout records, beside the odds.

    "Observational Auditing of Privacy" (Kalemaj et al. 2025, arXiv:2511.14084), Algorithm 1, with
    holdout records as fresh draws (`membership_inference`); both records of a pair are shown. In
    the control game the holdout's two halves, cut at random, stand for members and others: there
    is nothing to tell.

    Args:
        training: as `pair`.
        control: as `pair`.
        repetitions: how often the games are replayed with fresh bits.
        key: the random stream of the bits, from `stream_key`.
        random: the stream of the pairs.
    """
    halves = _halves(control, random)
    games = []
    for one, other in ((training, control), halves):
        lead, made = _leads(one, other, random)
        scores = np.repeat(lead, made)
        games.append(membership_inference(scores, -scores, repetitions=repetitions, key=key))
    return Tallies(games[0], games[1], (training,), (control,), 2)


def _halves(tally: OddsTally, random: np.random.Generator) -> tuple[OddsTally, OddsTally]:
    counts = tally.counts.ravel()
    here = np.flatnonzero(counts)
    if not here.size:
        return tally, tally
    half = np.zeros_like(counts)
    half[here] = random.multivariate_hypergeometric(counts[here], tally.records // 2)
    first = OddsTally(tally.records // 2, half.reshape(tally.counts.shape))
    return first, OddsTally(tally.records - first.records, tally.counts - first.counts)


def _leads(
    training: OddsTally, control: OddsTally, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return by how much members lead in log-odds, ties too, and how many pairs do so."""
    members, others = training.cells(), control.cells()
    found = [
        _pairs(members.some(members.proxy == bin_), others.some(others.proxy == bin_), random)
        for bin_ in np.intersect1d(members.proxy, others.proxy)
    ]
    if not found:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    leads, counts = zip(*found, strict=True)
    return np.concatenate(leads), np.concatenate(counts)


def _pairs(
    members: OddsCells, others: OddsCells, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return by how much members of one bin lead, and how many pairs there are of each lead."""
    made = members.made, others.made
    held = min(int(one.sum()) for one in made)
    drawn, left = (random.multivariate_hypergeometric(one, held) for one in made)
    leads: list[NDArray[np.float64]] = []
    counts: list[NDArray[np.int64]] = []
    for target, wanted in zip(members.target, drawn.tolist(), strict=True):
        beside = random.multivariate_hypergeometric(left, wanted)
        left = left - beside
        leads.append(target - others.target)
        counts.append(beside)
    return np.concatenate(leads), np.concatenate(counts)
