"""A paper and what it states, as docs/evidence/papers.md lists them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement of a paper.

    Attributes:
        place: its number in the paper.
        says: what it is, in our words.
        code: the names that hold it, below `privcore` unless they say otherwise; empty for none.
        note: what agrees, what differs and why; or why it is not here, and what would run it. Of
            a table or figure it says first whether it is done whole, in small or not here.
        tests: tests that hold it, beside those that are marked.
    """

    place: str
    says: str
    code: str = ""
    note: str = "agrees"
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Erratum:
    """A misprint of a paper.

    Attributes:
        place: where it is printed.
        printed: what stands there, in our words.
        right: what the paper's own proof needs.
        why: how one sees it.
        test: the test that shows it; empty where reading does.
    """

    place: str
    printed: str
    right: str
    why: str
    test: str = ""


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper and what it states, in its order, and its misprints."""

    title: str
    entries: tuple[Entry, ...]
    errata: tuple[Erratum, ...] = ()
