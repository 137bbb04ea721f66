from .arms import ArmsComparison, LabelCounts, compare_arms, label_counts
from .attributes import attribute_inference, attribute_posterior
from .bayesian_network import BayesianNetwork, fit_network
from .candidate_cells import EveryCell, SeenCells
from .decoy_labels import Decoys, coin_predictions, decoy_tally, draw_decoys
from .distribution import ScoreTally, score_distribution
from .existence_probing import (
    any_record,
    probe_column,
    probe_records,
)
from .fidelity import FidelityTally, fidelity
from .game import draw_counterfactuals, label_inference
from .hashing import generator, stream_key
from .holdout_sketch import (
    HoldoutSketch,
    hashed_numbers,
    hashed_words,
    same_holdout,
)
from .holdout_suspicion import (
    SUSPICIOUS,
    holdout_suspicion,
    suspect_sentence,
    untested_sentence,
)
from .known_labels import LabelFit, fit_of, label_fit
from .lazy_sampling import (
    PLAIN,
    Sampling,
    calibrated_loss,
    exposure_bits,
    sampling_log_probability,
    secrecy_bits,
)
from .marginal_reconstruction import (
    MarginalFit,
    marginal_fit,
    reconstruct_columns,
)
from .matching import Matched, holdout_sides, match, match_everyone
from .membership import membership_inference
from .noise_detection import (
    Disagreement,
    NotZeroOrOne,
    VarianceAbove,
    variance_statistic,
)
from .odds import (
    OddsTally,
    Predictions,
    grouped_odds,
    odds_cells,
    odds_tally,
    unread_odds,
)
from .pairing import Paired, membership_tallies, own_label, pair
from .published_search import PublishedSearch, find_single
from .query_adversary import Adversary
from .query_reconstruction import (
    Bisection,
    CellCounts,
    Knowledge,
    Match,
    Progress,
    TableReconstruction,
    find_bounds,
    learn_columns,
    reconstruct_column,
    reconstruct_groups,
    reconstruct_table,
    table_match,
)
from .query_targets import (
    confirm_unique,
    infer_attribute,
    infer_membership,
)
from .reference_scores import (
    CalibratedLossScore,
    RmiaScore,
)
from .reidentification_attack import (
    anisotropic_log_likelihood,
    member_probabilities,
    radial_log_likelihood,
)
from .related_rows import (
    NEAR_DIGITS,
    NEARLY,
    ValueSketch,
    distinct_sentence,
    leading_digits,
    row_sums,
    separation,
)
from .replays import Deal, replay
from .scores import (
    LogRatioScore,
    PaperScore,
    Score,
    score_named,
)
from .secret_leakage import (
    Leakage,
    guess_digit,
    guess_digit_with_prior,
    secret_leakage,
    secret_log_probability,
    tuned_training,
)
from .segments import SegmentTree, Split, fit_segments
from .slice_tallies import SliceTallies, slice_tallies
from .student import (
    Context,
    Student,
    fit_student,
    folds_of,
    learned,
    mean_of_models,
    probabilities_of,
)
from .tallies import StudentTallies, Tallies, unlike_arms
from .tally import Tally
from .unit_records import (
    ScoredRecords,
    UnitChoices,
    UnitRecords,
    unit_records,
    unit_tallies,
)

__all__ = [
    "NEARLY",
    "NEAR_DIGITS",
    "PLAIN",
    "SUSPICIOUS",
    "Adversary",
    "ArmsComparison",
    "BayesianNetwork",
    "Bisection",
    "CalibratedLossScore",
    "CellCounts",
    "Context",
    "Deal",
    "Decoys",
    "Disagreement",
    "EveryCell",
    "FidelityTally",
    "HoldoutSketch",
    "Knowledge",
    "LabelCounts",
    "LabelFit",
    "Leakage",
    "LogRatioScore",
    "MarginalFit",
    "Match",
    "Matched",
    "NotZeroOrOne",
    "OddsTally",
    "Paired",
    "PaperScore",
    "Predictions",
    "Progress",
    "PublishedSearch",
    "RmiaScore",
    "Sampling",
    "Score",
    "ScoreTally",
    "ScoredRecords",
    "SeenCells",
    "SegmentTree",
    "SliceTallies",
    "Split",
    "Student",
    "StudentTallies",
    "TableReconstruction",
    "Tallies",
    "Tally",
    "UnitChoices",
    "UnitRecords",
    "ValueSketch",
    "VarianceAbove",
    "anisotropic_log_likelihood",
    "any_record",
    "attribute_inference",
    "attribute_posterior",
    "calibrated_loss",
    "coin_predictions",
    "compare_arms",
    "confirm_unique",
    "decoy_tally",
    "distinct_sentence",
    "draw_counterfactuals",
    "draw_decoys",
    "exposure_bits",
    "fidelity",
    "find_bounds",
    "find_single",
    "fit_network",
    "fit_of",
    "fit_segments",
    "fit_student",
    "folds_of",
    "generator",
    "grouped_odds",
    "guess_digit",
    "guess_digit_with_prior",
    "hashed_numbers",
    "hashed_words",
    "holdout_sides",
    "holdout_suspicion",
    "infer_attribute",
    "infer_membership",
    "label_counts",
    "label_fit",
    "label_inference",
    "leading_digits",
    "learn_columns",
    "learned",
    "marginal_fit",
    "match",
    "match_everyone",
    "mean_of_models",
    "member_probabilities",
    "membership_inference",
    "membership_tallies",
    "odds_cells",
    "odds_tally",
    "own_label",
    "pair",
    "probabilities_of",
    "probe_column",
    "probe_records",
    "radial_log_likelihood",
    "reconstruct_column",
    "reconstruct_columns",
    "reconstruct_groups",
    "reconstruct_table",
    "replay",
    "row_sums",
    "same_holdout",
    "sampling_log_probability",
    "score_distribution",
    "score_named",
    "secrecy_bits",
    "secret_leakage",
    "secret_log_probability",
    "separation",
    "slice_tallies",
    "stream_key",
    "suspect_sentence",
    "table_match",
    "tuned_training",
    "unit_records",
    "unit_tallies",
    "unlike_arms",
    "unread_odds",
    "untested_sentence",
    "variance_statistic",
]
