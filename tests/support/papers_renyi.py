"""Statements of "Defending against Reconstruction Attacks with Renyi DP"."""

from tests.support.papers_types import Entry, Paper

_CONVERSIONS = "tests/privcore/guarantees/test_conversions.py::"

RENYI = Paper(
    "Defending against Reconstruction Attacks with Renyi DP",
    (
        Entry(
            "Definitions 1, 2 and 3",
            "(epsilon, delta)-DP, Renyi divergence, Renyi DP",
            "guarantees.ApproxDP guarantees.renyi_epsilon",
            tests=(
                f"{_CONVERSIONS}test_pure_renyi_of_randomized_response",
                f"{_CONVERSIONS}test_renyi_epsilon_is_that_of_dp_accounting",
            ),
        ),
        Entry(
            "Section 2.2",
            "from Renyi DP to (epsilon, delta)-DP; post-processing",
            "guarantees.renyi_epsilon",
            "agrees; ours is the improved conversion of Balle et al., never above the printed",
        ),
        Entry("Equation (1)", "probability preservation", "upper_bounds.renyi_success_bound"),
        Entry(
            "Theorem 1",
            "leakage from above and from below",
            "upper_bounds.renyi_leakage upper_bounds.least_leakage",
        ),
        Entry("Corollary 1", "the best order", "upper_bounds.curve_leakage"),
        Entry(
            "Appendix A.2, Lemmas 1 and 2",
            "monotone and concave in the bits",
            "upper_bounds.renyi_leakage",
        ),
        Entry(
            "Section 3.2",
            "log p1 over 10,000 n-gram models; lazy sampling",
            "attacks.sampling_log_probability attacks.secret_leakage flows.study.secrets.study",
            "-22.5 and 1.5 after one step, if -22.5 is the logarithm of p1's mean; the mean of "
            "log p1 is -23.6",
        ),
        Entry(
            "Section 4.1",
            "the n-gram model",
            "mechanisms.train_secrets attacks.secret_log_probability",
            "agrees; the number of steps is not printed",
        ),
        Entry(
            "Assumption 1",
            "log p1 is about equal for models trained anew",
            "attacks.secret_leakage",
            "in part: with a canary of 16 digits log p1 deviates by 1 to 5 nats, while "
            "training on it moves the mean by 3 deviations and more",
        ),
        Entry(
            "Section 4.3",
            "the training run, and a canary of 16 digits",
            "upper_bounds.leakage_curves upper_bounds.curve_leakage attacks.secrecy_bits",
            "the bounds are those of the run; the canary in miniature, in a model of digits "
            "trained by DP-SGD: it leaks less than the bound at every noise and sampling rate, "
            "and is read only without noise. GPT-2 is not here",
        ),
        Entry(
            "Exposure",
            "the rank of a canary among all candidates",
            "attacks.exposure_bits",
            "agrees with Carlini et al.; never less than log2 of the candidates minus secrecy",
        ),
        Entry(
            "Table 1",
            "sentences at risk",
            "attacks.sampling_log_probability workers.memorization.scan.scan_sequences",
            "in small: five kinds of sentence are seen in character n-grams (order 6) of 7,901 "
            "rated texts. Of 2,000 training texts 6 are as likely (above 1e-10) and as well known "
            "(less than 1% of the test texts) as its third, 6 likely and common as its first two, "
            "884 known and out of reach as its fourth. `privaudit memorization` lists the places "
            "of yours; the paper's own need GPT-2",
        ),
        Entry(
            "Figure 1",
            "leaked bits against the secret's",
            "upper_bounds.leakage_curves",
            "whole: agrees",
        ),
        Entry("Figure 2", "60 bits against steps", "upper_bounds.steps_curves", "whole: agrees"),
        Entry(
            "Figure 3",
            "left: n-gram models below the bound; right: GPT-2",
            "flows.study.secrets.study upper_bounds.curve_leakage",
            "in small: left is whole and agrees (`privaudit study secrets`); right needs GPT-2, "
            "and a canary of 16 digits in a model of digits stands in for it (section 4.3)",
        ),
        Entry(
            "Figure 4",
            "calibrated losses, and the probability of being generated",
            "attacks.calibrated_loss flows.memorization.run_memorization",
            "in small: with n-grams as in Table 1 training texts have a calibrated loss of -57.9 "
            "nats, test texts -0.4 and generated ones -44.5: the first two as drawn, the last not, "
            "as n-grams know texts of 100 characters by heart and stray when they generate. "
            "`privaudit memorization` draws it of your sequences; the paper's own need GPT-2",
        ),
        Entry(
            "Figure 5",
            "the improved conversion",
            "upper_bounds.improved_conversion_leakage",
            "whole: agrees; as leaked bits it is no bound",
        ),
        Entry("Figure 6", "q = 0.2, 100 epochs", "upper_bounds.leakage_curves", "whole: agrees"),
        Entry(
            "Figure 7",
            "share leaked against epsilon",
            "flows.study.bounds.study upper_bounds.leakage_curves",
            "whole: agrees: below 10, and around 50",
        ),
        Entry(
            "Figure 8",
            "top-k sampling has a density",
            "attacks.Sampling attacks.sampling_log_probability",
            "whole: an illustration; sums to one over all sequences",
        ),
    ),
)
