from .keyed_noise import KeyedBits, discrete_laplace, discrete_laplace_tail
from .noisy_wealth import NoisyWealth, exactly
from .statement import ExactStatement, StatementFigures, exact_statement, publish_statement

__all__ = [
    "ExactStatement",
    "KeyedBits",
    "NoisyWealth",
    "StatementFigures",
    "discrete_laplace",
    "discrete_laplace_tail",
    "exact_statement",
    "exactly",
    "publish_statement",
]
