"""Inferring a categorical column: the label game with the column in place of the label."""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.game import label_inference
from privcore.attacks.scores import Score
from privcore.attacks.tally import Tally
from privcore.exceptions import InvalidInputError


def attribute_inference(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    prior: NDArray[np.float64],
    values: NDArray[np.integer],
    *,
    score: Score,
    repetitions: int,
    key: int,
) -> Tally:
    """Play the observational game for one categorical column of the training records.

    "Observational Auditing of Label Privacy" (Kalemaj et al. 2025, arXiv:2511.14084) for a
    protected attribute other than the label. The adversary knows the rest of a record and its
    label; it is shown the column's value v0 or a counterfactual v1. Without the audited model it
    believes prior(v) proxy(label | v) up to a factor, and v1 is drawn from that; with it, prior(v)
    target(label | v). Both go to `label_inference` as proxy and target.

    The proxy's factor is not a detail: what a value says about a label *in general* is no leak,
    and would look like one if only the target were asked. With a model of the column given
    the rest *and the label* pass `proxy` of ones for it, or play `label_inference` with
    that model as the proxy and any belief of the adversary's own as the target.

    Assumptions: given the rest of the record and the label, the value has the proxy's posterior as
    its distribution, up to a total-variation distance that is the claim's `shift`; records are
    independent; prior and proxy never saw these values. Then the tally bounds the epsilon of
    *replacing this column in one record*, which no guarantee for labels speaks of, and which is at
    most that of replacing the record.

    Args:
        target: shape (records, values), the audited model's probability of the record's own label
            with the column set to each value in turn; rows need not sum to 1.
        proxy: same, of the model that never saw these records.
        prior: shape (values,) or (records, values), probabilities of the column given the rest of
            the record without its label.
        values: shape (records,), the column as indices from 0.
        score: the adversary.
        repetitions: how often the game is replayed with fresh bits and counterfactuals.
        key: the random stream, from `stream_key`.

    Raises:
        InvalidInputError: probabilities that are NaN or outside [0, 1], a prior that does not sum
            to 1 within 1e-6, shapes that differ, a value outside the columns', no repetitions, or
            a record whose label is impossible with every value.
    """
    posterior = attribute_posterior(prior, target, name="target")
    _check_values(values, posterior.shape)
    return label_inference(
        posterior,
        attribute_posterior(prior, proxy, name="proxy"),
        values,
        score=score,
        repetitions=repetitions,
        key=key,
    )


def attribute_posterior(
    prior: NDArray[np.float64], likelihood: NDArray[np.float64], *, name: str = "likelihood"
) -> NDArray[np.float64]:
    """Return the column's distribution given the label, by Bayes' rule; shape (records, values).

    Args:
        prior: shape (values,) or (records, values), rows that sum to 1.
        likelihood: shape (records, values), a model's probability of the record's own label with
            the column set to each value in turn.
        name: what errors call the likelihood.
    """
    if likelihood.ndim != 2 or likelihood.shape[1] < 2:
        rule = "its shape is (records, values), values >= 2"
        raise InvalidInputError(name, likelihood.shape, rule)
    if prior.shape not in {likelihood.shape, likelihood.shape[1:]}:
        rule = f"its shape is {likelihood.shape} or {likelihood.shape[1:]}"
        raise InvalidInputError("prior", prior.shape, rule)
    for label, probabilities in (("prior", prior), (name, likelihood)):
        inside = (probabilities >= 0.0) & (probabilities <= 1.0)
        if not np.all(inside):
            worst = float(probabilities[~inside][0])
            raise InvalidInputError(label, worst, "a probability lies in [0, 1]")
    totals = np.atleast_1d(prior.sum(axis=-1))
    far = np.abs(totals - 1.0)
    if np.any(far > 1e-6):
        worst = float(totals[np.argmax(far)])
        raise InvalidInputError("prior", worst, "a prior sums to 1 within 1e-6")
    # The largest factor of a row becomes 1 first, so that tiny likelihoods do not underflow.
    possible = np.where(prior > 0.0, likelihood, 0.0)
    largest = possible.max(axis=1, keepdims=True)
    impossible = largest[:, 0] == 0.0
    if np.any(impossible):
        rule = f"the label of record {int(np.argmax(impossible))} is possible with some value"
        raise InvalidInputError(name, 0.0, rule)
    joint = prior * (possible / largest)
    posterior: NDArray[np.float64] = joint / joint.sum(axis=1, keepdims=True)
    return posterior


def _check_values(values: NDArray[np.integer], shape: tuple[int, ...]) -> None:
    records, candidates = shape
    if values.shape != (records,):
        raise InvalidInputError("values", values.shape, f"their shape is {(records,)}")
    strange = (values < 0) | (values >= candidates)
    if np.any(strange):
        worst = int(values[np.argmax(strange)])
        raise InvalidInputError("values", worst, f"a value is an index from 0 to {candidates - 1}")
