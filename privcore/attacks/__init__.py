"""How an adversary plays: games, scores, tallies."""

from privcore.attacks.game import label_inference
from privcore.attacks.scores import LogRatioScore, PaperScore, Score
from privcore.attacks.streams import generator, stream_key
from privcore.attacks.tally import Tally

__all__ = [
    "LogRatioScore",
    "PaperScore",
    "Score",
    "Tally",
    "generator",
    "label_inference",
    "stream_key",
]
