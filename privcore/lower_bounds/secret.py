"""Secrets that an audit tries to infer; a module of its own, since settings name them too."""

from enum import StrEnum


class Secret(StrEnum):
    """Secret of one record that an audit tries to infer, and what a claim for it lets be replaced.

    LABEL: the label. Every guarantee speaks of it.
    ATTRIBUTE: one column of the features. A guarantee for labels takes features for public and
        promises nothing; one for whole records promises at least as much as for the record.
    MEMBERSHIP: whether the record was trained on at all: the whole record is replaced by another of
        the same source. Only a guarantee for whole records speaks of it.
    """

    LABEL = "label"
    ATTRIBUTE = "attribute"
    MEMBERSHIP = "membership"


def named(model: str, secret: str) -> str:
    """Return the model, and the secret that was tested if it is not the label."""
    return model if secret == Secret.LABEL else f"{model} ({secret})"
