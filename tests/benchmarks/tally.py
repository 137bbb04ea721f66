"""The game over ten million records in chunks: time per record, and memory that stays flat.

    python -m tests.benchmarks.tally [--json] [--quick]

100 repetitions, binary labels, 200,000 records at a time, as a worker plays its shards. The memory
is what the operating system counts above what was resident before. With `--quick`, a million.
"""

from typing import Any

import numpy as np
from scipy.special import expit

from privcore.attacks import PaperScore, Tally, label_inference
from tests.benchmarks.measure import arguments, report, run
from tests.simulate import two_columns

CHUNK, REPETITIONS = 200_000, 100


def arm(records: int, random: np.random.Generator, *, memorised: float) -> tuple[Any, Any, Any]:
    """Draw labels, and two models' probabilities of which the target's lean towards the labels."""
    logits = random.normal(-1.0, 1.5, records)
    labels = (random.random(records) < expit(logits)).astype(np.int64)
    seen = logits + memorised * (2 * labels - 1) + random.normal(0.0, 0.2, records)
    return two_columns(expit(seen)), two_columns(expit(logits)), labels


def play(chunks: int) -> Tally:
    """Play chunks as they come; each chunk's data are drawn, played and forgotten."""
    total = Tally.zero(REPETITIONS)
    for chunk in range(chunks):
        rows = arm(CHUNK, np.random.default_rng(chunk), memorised=0.5)
        total += label_inference(*rows, score=PaperScore(), repetitions=REPETITIONS, key=chunk)
    return total


def measured(*, quick: bool) -> list[dict[str, Any]]:
    play(1)
    rows = arm(CHUNK, np.random.default_rng(0), memorised=0.5)
    one = run(
        lambda: label_inference(*rows, score=PaperScore(), repetitions=REPETITIONS, key=0),
        repeats=5,
    )
    found = [
        {
            "one chunk of records": CHUNK,
            "seconds": one.seconds,
            "nanoseconds per record and repetition": 1e9 * one.seconds / CHUNK / REPETITIONS,
        }
    ]
    for chunks in (1, 5, 5 if quick else 50):
        whole = run(lambda chunks=chunks: play(chunks))
        found.append(
            {
                "records": whole.value.records,
                "seconds, with drawing the data": whole.seconds,
                "megabytes": whole.megabytes,
            }
        )
    return found


def main() -> None:
    report(measured(quick=arguments(__doc__).quick), description=__doc__)


if __name__ == "__main__":
    main()
