from .keyed_noise import KeyedBits, discrete_laplace, discrete_laplace_tail
from .statement import PublicStatement, publish_statement

__all__ = [
    "KeyedBits",
    "PublicStatement",
    "discrete_laplace",
    "discrete_laplace_tail",
    "publish_statement",
]
