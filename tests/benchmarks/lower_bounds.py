"""Speed of lower bounds beside jax-privacy and PrivacyGuard, on the same counts in one process.

    python -m tests.benchmarks.lower_bounds [--json] [--quick]

One epsilon: the Gaussian family at delta 1e-5 and significance 0.05. The sweep: 200,000 records,
guesses on 1 to 100% of them, 100 repetitions, scores N(0, 1) and N(separation, 1); every one of the
10,000 epsilons, and the best of each repetition alone. A peer that is not installed is left out.
jax-privacy computes 20 of the 10,000, drawn at random, and is compared on these. Ours and a peer
take turns; ratios are medians over the turns, of CPU seconds, with the least beside them.
PrivacyGuard takes one turn and is stopped after five minutes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from privcore.guarantees import Gaussian
from privcore.lower_bounds import best_epsilon, epsilon_lower
from tests.benchmarks.measure import arguments, beside, installed, report, run, run_within

COUNTS = (
    (1_000, 100, 70),
    (10_000, 1_000, 980),
    (200_000, 2_000, 1_500),
    (200_000, 20_000, 13_000),
    (200_000, 200_000, 110_000),
)
SEPARATIONS = (0.1, 0.3, 1.0)
RECORDS, REPETITIONS, SAMPLE = 200_000, 100, 20
DELTA, SIGNIFICANCE = 1e-5, 0.05
_LIMIT = 300


def ours(records: int, guesses: int, correct: int) -> float:
    return epsilon_lower(
        records, guesses, correct, family=Gaussian(), delta=DELTA, significance=SIGNIFICANCE
    )


def jax_privacy(records: int, guesses: int, correct: int) -> Any:
    """Prepare jax-privacy's auditor with scores that give these counts at threshold 1."""
    from jax_privacy import auditing  # noqa: PLC0415  # an optional peer

    abstained = records - guesses
    wrong = guesses - correct
    scores_in = np.concatenate([np.ones(correct), np.zeros(abstained // 2)])
    scores_out = np.concatenate([np.ones(wrong), np.zeros(abstained - abstained // 2)])
    auditor = auditing.CanaryScoreAuditor(scores_in, scores_out)

    def epsilon() -> float:
        # It keeps the conversions of earlier calls, which an audit of other counts cannot use.
        auditing._gaussian_dp_blow_up_inverse.cache_clear()
        strategy = auditing.Explicit(threshold=1.0)
        return auditor.epsilon_one_run_fdp(SIGNIFICANCE, DELTA, threshold_strategy=strategy)

    return epsilon


def privacy_guard(records: int, guesses: int, correct: int) -> float:
    from privacy_guard.analysis.mia.fdp_analysis_node import FDPAnalysisNode  # noqa: PLC0415  # an optional peer

    node = FDPAnalysisNode(m=records, c=correct, c_cap=guesses, threshold=SIGNIFICANCE, delta=DELTA)
    return node.run_analysis().eps


def one_epsilon(*, quick: bool) -> Iterator[dict[str, Any]]:
    for counts in COUNTS:
        row: dict[str, Any] = {"one epsilon": counts}

        def mine(counts: tuple[int, int, int] = counts) -> float:
            return ours(*counts)

        alone = run(lambda mine=mine: [mine() for _ in range(100)][-1], repeats=5)
        row |= {"microseconds": 1e4 * alone.seconds, "epsilon": alone.value}
        if installed("jax-privacy"):
            pair = beside(mine, jax_privacy(*counts), times=100, pairs=5)
            row["times jax-privacy"] = pair.ratio
            row["at least"] = pair.least
            row["difference from jax-privacy"] = abs(pair.peer.value - pair.mine.value)
        if installed("privacyguard-platform") and not quick:
            slow = run_within(_LIMIT, lambda counts=counts: privacy_guard(*counts))
            row["times PrivacyGuard"] = (
                1e2 * slow.seconds / alone.seconds if slow else f"over {_LIMIT} s"
            )
            row["difference from PrivacyGuard"] = abs(slow.value - alone.value) if slow else None
        yield row


def sweep_counts(separation: float) -> tuple[Any, Any]:
    """Counts of the paper's game, both of shape (repetitions, fractions); seed 1."""
    random = np.random.default_rng(1)
    guesses = np.arange(1, 101) * (RECORDS // 100)
    correct = np.empty((REPETITIONS, guesses.size), dtype=np.int64)
    for repetition in range(REPETITIONS):
        bits = random.random(RECORDS) < 0.5
        scores = random.normal(np.where(bits, separation, 0.0)) - separation / 2.0
        order = np.argsort(-np.abs(scores))
        correct[repetition] = np.cumsum(((scores > 0.0) == bits)[order])[guesses - 1]
    return np.broadcast_to(guesses, correct.shape), correct


def sweeps() -> Iterator[dict[str, Any]]:
    for separation in SEPARATIONS:
        guesses, correct = sweep_counts(separation)
        pairs = list(zip(guesses.ravel().tolist(), correct.ravel().tolist(), strict=True))
        every = run(lambda pairs=pairs: [ours(RECORDS, *pair) for pair in pairs], repeats=3)
        best = run(
            lambda guesses=guesses, correct=correct: best_epsilon(
                RECORDS, guesses, correct, family=Gaussian(), delta=DELTA, significance=SIGNIFICANCE
            ),
            repeats=5,
        )
        epsilons = np.reshape(every.value, correct.shape)
        row = {
            "sweep at separation": separation,
            "seconds": every.seconds,
            "seconds for the best alone": best.seconds,
            "largest difference of the best": float(
                np.abs(best.value - epsilons.max(axis=1)).max()
            ),
        }
        if installed("jax-privacy"):
            chosen = np.random.default_rng(2).choice(len(pairs), SAMPLE, replace=False)
            beside_it = [
                beside(
                    lambda pair=pairs[i]: ours(RECORDS, *pair),
                    jax_privacy(RECORDS, *pairs[i]),
                    times=20,
                    pairs=1,
                )
                for i in chosen
            ]
            row["times jax-privacy, on the sample"] = sum(
                pair.peer.seconds for pair in beside_it
            ) / sum(pair.mine.seconds for pair in beside_it)
            row["difference from jax-privacy"] = max(
                abs(pair.peer.value - pair.mine.value) for pair in beside_it
            )
        yield row


def main() -> None:
    quick = arguments(__doc__).quick
    report([*one_epsilon(quick=quick), *sweeps()], description=__doc__)


if __name__ == "__main__":
    main()
