"""One full audit beside PrivacyGuard's label-inference attack and analysis, in one process.

    python -m tests.benchmarks.audit [--json] [--quick]

200,000 training records, 100 repetitions, the sweep over 1 to 100% guesses. Both are given the same
probabilities of the same two models. Ours plays the game on 50,000 control records besides, names
labels for the bets, and reads everything as evidence; PrivacyGuard's analysis keeps its default of
10 bootstrap samples per repetition. Their epsilons mean different things and are not compared. Both
take turns; ratios are medians over the turns, of CPU seconds. Our memory is that of the first audit
of this size in the process. With `--quick` PrivacyGuard plays 10 repetitions, and its time for 100
is extrapolated.
"""

import contextlib
import io
from typing import Any

import numpy as np
from scipy.special import expit

from privcore.attacks import PaperScore, Tallies, generator, label_inference, odds_tally
from privcore.lower_bounds import Claim, Evidence, Grid, read_evidence
from tests.benchmarks.measure import arguments, beside, installed, report, run
from tests.simulate import two_columns

RECORDS, CONTROL, REPETITIONS, DELTA = 200_000, 50_000, 100, 1e-5
Arm = tuple[Any, Any, Any]


def arm(records: int, random: np.random.Generator, *, memorised: float) -> Arm:
    """Draw labels, and two models' probabilities of which the target's lean towards the labels."""
    logits = random.normal(-1.0, 1.5, records)
    labels = (random.random(records) < expit(logits)).astype(np.int64)
    seen = logits + memorised * (2 * labels - 1) + random.normal(0.0, 0.2, records)
    return two_columns(expit(seen)), two_columns(expit(logits)), labels


def audit(training: Arm, control: Arm) -> Evidence:
    games, odds = [], []
    for key, rows in enumerate((training, control)):
        games.append(label_inference(*rows, score=PaperScore(), repetitions=REPETITIONS, key=key))
        odds.append((odds_tally(*rows),))
    return read_evidence(
        Tallies(*games, *odds, classes=2),
        claim=Claim(delta=DELTA),
        choice=Grid(),
        paper_delta=DELTA,
        random=generator("benchmark"),
    )


def privacy_guard(training: Arm, repetitions: int) -> Any:
    import pandas as pd  # noqa: PLC0415  # comes with an optional peer
    from privacy_guard.analysis.lia.lia_analysis_node import LIAAnalysisNode  # noqa: PLC0415
    from privacy_guard.analysis.mia.aggregate_analysis_input import AggregationType  # noqa: PLC0415
    from privacy_guard.attacks.lia_attack import LIAAttack, LIAAttackInput  # noqa: PLC0415

    target, proxy, labels = training
    frames = [
        pd.DataFrame({"user_id": np.arange(len(labels)), "label": labels, "predictions": scored})
        for scored in (target[:, 1], proxy[:, 1])
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        prepared = LIAAttackInput(*frames, AggregationType.NONE).prepare_attack_input()
        played = LIAAttack(
            prepared, AggregationType.NONE, num_resampling_times=repetitions
        ).run_attack()
    return LIAAnalysisNode(played, delta=DELTA, power=2.0).run_analysis()


def measured(*, quick: bool) -> dict[str, Any]:
    random = np.random.default_rng(3)
    training = arm(RECORDS, random, memorised=0.5)
    control = arm(CONTROL, random, memorised=0.0)
    audit(tuple(part[:100] for part in training), tuple(part[:100] for part in control))  # compiles
    mine = run(lambda: audit(training, control))
    row = {
        "full audit of records": RECORDS,
        "megabytes": mine.megabytes,
        "epsilon_lower": mine.value.epsilon_lower,
        "epsilon_paper": mine.value.game.epsilon_paper,
    }
    if not installed("privacyguard-platform"):
        return row | {"seconds": run(lambda: audit(training, control), repeats=5).seconds}
    repetitions = REPETITIONS // 10 if quick else REPETITIONS
    privacy_guard(tuple(part[:1_000] for part in training), 1)  # imports
    pair = beside(
        lambda: audit(training, control), lambda: privacy_guard(training, repetitions), times=3
    )
    return row | {
        "seconds": pair.mine.seconds,
        "PrivacyGuard's repetitions": repetitions,
        "PrivacyGuard's seconds": pair.peer.seconds,
        "wall clock of both": (pair.mine.wall, pair.peer.wall),
        "PrivacyGuard's megabytes": pair.peer.megabytes,
        "PrivacyGuard's eps": float(pair.peer.value.eps),
        "times as fast": pair.ratio * REPETITIONS / repetitions,
        "at least": pair.least * REPETITIONS / repetitions,
        "share of its memory": mine.megabytes / pair.peer.megabytes,
    }


def main() -> None:
    report([measured(quick=arguments(__doc__).quick)], description=__doc__)


if __name__ == "__main__":
    main()
