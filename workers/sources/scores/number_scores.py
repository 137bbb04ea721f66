"""Columns of labels that are numbers, and of two models' predictions of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import RankedPredictions, above, above_odds, nearness, places
from workers.labels.bad_records import BadRecords
from workers.labels.columns import Batch
from workers.sources.scores.score_columns import read_numbers
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_rows import DayRows


@dataclass(frozen=True, slots=True)
class NumberScores:
    """Reader of rows whose label is a number (`privcore.attacks.number_labels`).

    Attributes:
        tables: what the columns mean.
        rows: which of them are of the day.
        borders: between the places of the proxy's predictions; None before a sample was seen.
    """

    tables: ScoreTables
    rows: DayRows
    borders: tuple[float, ...] | None = None

    @property
    def sampled(self) -> tuple[str, ...]:
        """Column that a sample is taken of: the proxy's predictions of the day."""
        day = (self.tables.day,) if self.rows.asked else ()
        return (*self.tables.columns_of("proxy"), *day)

    def sample(self, batch: Batch) -> NDArray[np.float64]:
        """Return what the proxy predicts for the day's rows, shape (some of them,)."""
        predicted = self.numbers(batch, "proxy")
        return np.asarray(predicted[np.isfinite(predicted) & self.rows.today(batch)])

    def numbers(self, batch: Batch, role: str) -> NDArray[np.float64]:
        """Return the numbers of a role, NaN where there is none."""
        return read_numbers(batch, self.tables.columns_of(role)[0], role=role)

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return 1 for labels above the proxy's prediction, 0 for others, -1 for what is none."""
        labels, predicted = self.numbers(batch, "label"), self.numbers(batch, "proxy")
        known = np.isfinite(labels)
        whole = known & np.isfinite(predicted)  # `unscored` says what the others lack
        classes = above(np.where(whole, labels, 0.0), np.where(whole, predicted, 0.0))
        column = self.tables.label_column
        return self.rows.those_of_today(batch, column, np.where(known, classes, -1))

    def unscored(self, batch: Batch) -> NDArray[np.bool_]:
        """Return where a prediction is missing or infinite."""
        lacking = [np.isnan(self.numbers(batch, role)) for role in ("target", "proxy")]
        return np.asarray(np.logical_or(*lacking))

    def undecided(self, batch: Batch) -> RankedPredictions:
        """Return what stands for the proxy's probabilities; 0 where there is no number."""
        labels, predicted = self.numbers(batch, "label"), self.numbers(batch, "proxy")
        known = np.isfinite(predicted)
        whole = known & np.isfinite(labels)
        predicted = np.where(known, predicted, 0.0)
        near = nearness(np.where(whole, labels, 0.0), np.where(whole, predicted, 0.0))
        assert self.borders is not None  # noqa: S101  # a sample was seen: `scan_labels`
        order = places(predicted, np.array(self.borders))
        return RankedPredictions(np.where(whole, near, 0.0), np.where(known, order, 0))

    def sides(self, batch: Batch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how sure the models are that a number lies above the proxy's prediction."""
        target, proxy = self.numbers(batch, "target"), self.numbers(batch, "proxy")
        whole = np.isfinite(target) & np.isfinite(proxy) & self.rows.today(batch)
        return above_odds(np.where(whole, target, 0.0), np.where(whole, proxy, 0.0))
