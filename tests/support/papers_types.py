"""A paper and what it states, as docs/papers.md lists them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement of a paper.

    Attributes:
        place: its number in the paper.
        says: what it is, in our words.
        code: the names that hold it, below `privcore` unless they say otherwise; empty for none.
        note: what agrees, what differs and why; or why it is not here, and what would run it.
        tests: tests that hold it, beside those that are marked.
    """

    place: str
    says: str
    code: str = ""
    note: str = "agrees"
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper and what it states, in its order."""

    title: str
    entries: tuple[Entry, ...]
