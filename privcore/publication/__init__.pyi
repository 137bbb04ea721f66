from .above_threshold import ThresholdTest
from .keyed_noise import KeyedBits, discrete_laplace, discrete_laplace_tail
from .noisy_wealth import NoisyWealth, exactly
from .recurring_labels import ExactNight, NightAnswer, RecurringTest, exact_night
from .statement import ExactStatement, PublicStatement, exact_statement, publish_statement

__all__ = [
    "ExactNight",
    "ExactStatement",
    "KeyedBits",
    "NightAnswer",
    "NoisyWealth",
    "PublicStatement",
    "RecurringTest",
    "ThresholdTest",
    "discrete_laplace",
    "discrete_laplace_tail",
    "exact_night",
    "exact_statement",
    "exactly",
    "publish_statement",
]
