"""How an adversary plays: games, scores, tallies."""

from privcore.attacks.attributes import attribute_inference, attribute_posterior
from privcore.attacks.distribution import ScoreTally, score_distribution
from privcore.attacks.fidelity import FidelityTally, fidelity
from privcore.attacks.game import deal, label_inference
from privcore.attacks.lifts import LiftCells, LiftTally, label_lifts
from privcore.attacks.membership import inclusion_inference, membership_inference
from privcore.attacks.reference_scores import CalibratedLossScore, ReferenceScore, RmiaScore
from privcore.attacks.replays import Deal, replay
from privcore.attacks.scores import LogRatioScore, PaperScore, Score, score_named
from privcore.attacks.slices import SliceTallies, slice_tallies
from privcore.attacks.streams import generator, stream_key
from privcore.attacks.tallies import Tallies
from privcore.attacks.tally import Tally
from privcore.attacks.unit_records import UnitRecords, unit_records, unit_tallies
from privcore.attacks.units import UnitScores, unit_label_inference

__all__ = [
    "CalibratedLossScore",
    "Deal",
    "FidelityTally",
    "LiftCells",
    "LiftTally",
    "LogRatioScore",
    "PaperScore",
    "ReferenceScore",
    "RmiaScore",
    "Score",
    "ScoreTally",
    "SliceTallies",
    "Tallies",
    "Tally",
    "UnitRecords",
    "UnitScores",
    "attribute_inference",
    "attribute_posterior",
    "deal",
    "fidelity",
    "generator",
    "inclusion_inference",
    "label_inference",
    "label_lifts",
    "membership_inference",
    "replay",
    "score_distribution",
    "score_named",
    "slice_tallies",
    "stream_key",
    "unit_label_inference",
    "unit_records",
    "unit_tallies",
]
