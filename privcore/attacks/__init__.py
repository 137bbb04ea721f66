"""How an adversary plays: games, scores, tallies."""

from privcore.attacks.game import label_inference
from privcore.attacks.lifts import LiftCells, LiftTally, label_lifts
from privcore.attacks.scores import LogRatioScore, PaperScore, Score
from privcore.attacks.streams import generator, stream_key
from privcore.attacks.tallies import Tallies
from privcore.attacks.tally import Tally

__all__ = [
    "LiftCells",
    "LiftTally",
    "LogRatioScore",
    "PaperScore",
    "Score",
    "Tallies",
    "Tally",
    "generator",
    "label_inference",
    "label_lifts",
    "stream_key",
]
