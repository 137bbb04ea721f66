"""Models on the same labels, on the page of the night: what they promise together."""

import datetime as dt
import logging
from dataclasses import dataclass

from workers.plain_text import plain_text
from workers.warehouse.store import Warehouse
from workers.warehouse.together import Together, together

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LabelTotal:
    """Limit for all models on the same labels.

    Attributes:
        epsilon: what they may promise together; None where there is no limit.
        delta: at which declarations are composed.
    """

    epsilon: float | None = None
    delta: float = 0.0


@dataclass(frozen=True, slots=True)
class SharedLabels:
    """Labels on which several models were trained.

    Attributes:
        labels: the dataset.
        sentence: what the models promise together, and whether the total is kept.
        exceeded: whether the total is exceeded.
    """

    labels: str
    sentence: str
    exceeded: bool


def shared_labels(
    warehouse: Warehouse, day: dt.date | None, total: LabelTotal
) -> tuple[SharedLabels, ...]:
    """Return the labels of a day that several models share, those that exceed the total first.

    A row that is not of its table costs no page: one entry then says what is missing.
    """
    if day is None:
        return ()
    try:
        found = [
            _shown(one, total)
            for one in together(warehouse, day, delta=total.delta)
            if one.trainings > 1
        ]
    except Exception as error:  # noqa: BLE001  # as for a model's page
        _log.exception("Models on the same labels cannot be shown.")
        why = f"Models on the same labels cannot be shown ({type(error).__name__})."
        return (SharedLabels("all", why, exceeded=False),)
    return tuple(sorted(found, key=lambda one: (not one.exceeded, one.labels)))


def _shown(found: Together, total: LabelTotal) -> SharedLabels:
    return SharedLabels(
        plain_text(found.dataset),
        plain_text(found.sentence(total.epsilon)),
        exceeded=total.epsilon is not None and found.exceeds(total.epsilon),
    )
