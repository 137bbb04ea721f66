"""Statements of "Provable Re-identification Privacy"."""

from tests.support.papers_errata import REIDENTIFICATION_ERRATA
from tests.support.papers_types import Entry, Paper

REIDENTIFICATION = Paper(
    "Provable Re-identification Privacy",
    (
        Entry(
            "Equation (1)",
            "the ideal: fresh records of the population instead of held-out ones",
            "upper_bounds.rip_eta",
            "agrees for a differentially private algorithm, at the eta of Theorem 4",
        ),
        Entry("Definition 1", "eta-RIP", "upper_bounds.reidentification_eta", "agrees, exactly"),
        Entry(
            "Proposition 2",
            "the optimal adversary",
            "upper_bounds.optimal_adversary attacks.member_probabilities",
        ),
        Entry("Theorem 3", "post-processing", "upper_bounds.reidentification_eta"),
        Entry("Theorem 4", "DP implies eta-RIP, tightly", "upper_bounds.rip_eta"),
        Entry("Theorem 5", "eta-RIP without any epsilon", "upper_bounds.reidentification_eta"),
        Entry("Proposition 6", "the odds at every output", "upper_bounds.optimal_adversary"),
        Entry(
            "Theorem 7",
            "noise for eta-RIP in any norm",
            "upper_bounds.isotropic_noise upper_bounds.least_noise_scale",
            "agrees; 1/(2 eta) in place of (7.5/eta)^(1 + 2/M) suffices, by a shorter proof",
        ),
        Entry(
            "Corollary 8",
            "noise by coordinate",
            "upper_bounds.laplace_radius_noise upper_bounds.anisotropic_noise",
            "differs: a Laplace radius does not hide membership in many dimensions; a Gamma "
            "radius does",
        ),
        Entry(
            "Algorithm 1",
            "the wrapper",
            "upper_bounds.printed_reidentification_private "
            "upper_bounds.reidentification_private "
            "flows.study.reidentification.study",
            "as printed, and with halves of all records; attacked around a mean, a logistic "
            "regression and leaf values",
        ),
        Entry(
            "Proposition 9",
            "a statistic of small deviation and huge sensitivity",
            "upper_bounds.reciprocal_sum_deviation upper_bounds.reciprocal_sum_sensitivity",
        ),
        Entry("Figure 1", "noise for RIP and for DP", "upper_bounds.noise_needed", "whole: agrees"),
    ),
    REIDENTIFICATION_ERRATA,
)
