"""Share of labels that the proxy predicts rightly, which noise in the labels limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtrc

from privcore.attacks.odds import OddsTally
from privcore.exceptions import InvalidInputError


@dataclass(frozen=True, slots=True)
class ProxyAccuracy:
    """Predictions of labels by the proxy.

    Args:
        predictions: how many were made; with more than two classes, where it held one likely.
        right: how many came true.
    """

    predictions: int
    right: int


def proxy_accuracy(tallies: Sequence[OddsTally], *, classes: int) -> ProxyAccuracy:
    """Count the proxy's predictions of the class that is looked at of each record (`OddsTally`).

    With two classes each record has a prediction: the likelier one. With more, that the label is
    the class, where the proxy holds it likelier than not; nothing is predicted otherwise. The class
    is chosen, and predicted, without the label.

    Args:
        tallies: of records whose labels the proxy never saw.
        classes: how many the label has.
    """
    predictions = right = 0
    for tally in tallies:
        cells = tally.cells()
        likely = cells.proxy > 0.0
        predictions += int((cells.ones + cells.zeros)[likely].sum())
        right += int(cells.ones[likely].sum())
        if classes == 2:
            predictions += int((cells.ones + cells.zeros)[~likely].sum())
            right += int(cells.zeros[~likely].sum())
    return ProxyAccuracy(predictions, right)


def randomized_pvalue(accuracy: ProxyAccuracy, *, keep_probability: float) -> float:
    """Return the p-value of "these labels went through randomized response", by the proxy's luck.

    A response is any one class with probability at most `keep_probability`, whatever the label was,
    independently of other records; so of n predictions made without it at most
    Binomial(n, keep_probability) come true. Exact, at any number of records; it says nothing
    against labels that are merely hard to predict. It does not hold where the proxy knows the
    response from another day, as it does where one response is kept for many days.

    Args:
        accuracy: of a proxy that never saw these labels.
        keep_probability: of the randomized response, in [1/classes, 1).
    """
    if not 0.0 < keep_probability < 1.0:
        raise InvalidInputError("keep_probability", keep_probability, "it lies in (0, 1)")
    if accuracy.right == 0:
        return 1.0
    return float(bdtrc(accuracy.right - 1, accuracy.predictions, keep_probability))
