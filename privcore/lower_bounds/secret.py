"""What of a record an audit tries to tell; a module of its own, since settings name it too."""

from enum import StrEnum


class Secret(StrEnum):
    """What of one record an audit tries to tell, and what a claim for it lets be replaced.

    LABEL: the label. Every guarantee speaks of it.
    ATTRIBUTE: one column of the features. A guarantee for labels takes features for public and
        promises nothing; one for whole records promises at least as much as for the record.
    MEMBERSHIP: whether the record was trained on at all: the whole record is replaced by another of
        the same source. Only a guarantee for whole records speaks of it.
    """

    LABEL = "label"
    ATTRIBUTE = "attribute"
    MEMBERSHIP = "membership"
