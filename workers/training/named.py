"""The mechanisms by the names that the command line and the studies use."""

from collections.abc import Callable

from privcore.exceptions import InvalidInputError
from workers.training.alibi import Alibi
from workers.training.method import Method
from workers.training.multi_stage import MEASURED, MultiStage
from workers.training.pate import Pate


def method_named(
    name: str,
    epsilon: float,
    *,
    stages: int = 3,
    teachers: int = 100,
    queries: int = 200,
    prior: tuple[float, ...] | None = None,
) -> Method:
    """Return the method of that name at `epsilon`; infinity is the same pipeline without noise.

    `stages` is read by `lp-mst` alone, `teachers` and `queries` by `pate-laplace` and
    `pate-gaussian` alone. `prior` is of `lp-1st-domain-prior` alone: class probabilities from
    outside, which must not depend on the labels; without them it is measured on the labels.

    Raises:
        InvalidInputError: an unknown name, a value out of its range, or a prior for another method.
    """
    if prior is not None and name in MECHANISMS and name != TAKES_PRIOR:
        rule = f"{name} takes none: only {TAKES_PRIOR} does"
        raise InvalidInputError("prior", prior, rule)
    makers: dict[str, Callable[[], Method]] = {
        "lp-1st": lambda: MultiStage(epsilon),
        TAKES_PRIOR: lambda: MultiStage(epsilon, prior=MEASURED if prior is None else prior),
        "lp-1st-noise-correction": lambda: MultiStage(epsilon, noise_correction=True),
        "lp-2st": lambda: MultiStage(epsilon, stages=2),
        "lp-mst": lambda: MultiStage(epsilon, stages=stages),
        "pate-laplace": lambda: Pate(
            epsilon, noise="laplace", delta=0.0, teachers=teachers, queries=queries
        ),
        "pate-gaussian": lambda: Pate(epsilon, teachers=teachers, queries=queries),
        "alibi": lambda: Alibi(epsilon),
    }
    if name not in makers:
        raise InvalidInputError("mechanism", name, f"it is one of {', '.join(MECHANISMS)}")
    return makers[name]()


TAKES_PRIOR = "lp-1st-domain-prior"
MECHANISMS = (
    "lp-1st",
    TAKES_PRIOR,
    "lp-1st-noise-correction",
    "lp-2st",
    "lp-mst",
    "pate-laplace",
    "pate-gaussian",
    "alibi",
)
