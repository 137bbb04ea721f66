"""Members beside records that training never saw, in pairs: which of the two was trained on?

The secret is here a whole record: whether it was in the training data. Each training record is set
beside a holdout record of the same label probability by the proxy, drawn at random; of the two the
one whose label the target holds likelier is predicted to be the member. Where members and holdout
were split at random, that is a coin's guess unless training made the difference.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.checks import check_labels, check_pair
from privcore.attacks.matching import SHARES
from privcore.attacks.membership import membership_inference
from privcore.attacks.odds import OddsCells, OddsTally
from privcore.attacks.tallies import Tallies


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
    sureness, total = np.abs(lead), int(made.sum())
    order = np.argsort(-sureness, kind="stable")
    reached = np.cumsum(made[order])
    sets = []
    for share in SHARES:
        least = sureness[order[np.searchsorted(reached, share * total)]] if share < 1.0 else 0.0
        chosen = sureness >= least
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
    found = [
        _pairs(members, others, random)
        for members, others in _bins(training.cells(), control.cells())
    ]
    if not found:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    leads, counts = zip(*found, strict=True)
    return np.concatenate(leads), np.concatenate(counts)


def _bins(training: OddsCells, control: OddsCells) -> list[tuple[OddsCells, OddsCells]]:
    """Return both arms' cells of each bin of the proxy's log-odds that either has."""
    both = np.intersect1d(training.proxy, control.proxy)
    return [(_at(training, proxy), _at(control, proxy)) for proxy in both]


def _at(cells: OddsCells, proxy: float) -> OddsCells:
    here = cells.proxy == proxy
    return OddsCells(
        cells.proxy[here],
        cells.target[here],
        cells.zeros[here],
        cells.ones[here],
        cells.unread[here],
    )


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
