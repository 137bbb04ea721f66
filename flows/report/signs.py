"""Signs of each verdict: a word, a sign and a colour, the same in tables and plots."""

from dataclasses import dataclass

from privcore.lower_bounds.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Sign:
    """The appearance of one verdict.

    Attributes:
        word: what the verdict is called in text.
        meaning: the verdict in one sentence.
        path: SVG path in the square from -1 to 1, to be stroked and not filled.
        color: name of the CSS variable of its colour.
        rank: 0 is what a reader should see first.
    """

    word: str
    meaning: str
    path: str
    color: str
    rank: int


SIGNS = {
    Verdict.VIOLATED: Sign(
        word="violated",
        meaning="The proven lower bound is above the declared epsilon, if the holdout was drawn at "
        "random from the rows trained on, after any sampling, no earlier model saw it, and "
        "training read no other label of these rows.",
        path="M-0.75,-0.75L0.75,0.75M0.75,-0.75L-0.75,0.75",
        color="violated",
        rank=0,
    ),
    Verdict.PROXY_UNFAITHFUL: Sign(
        word="proxy unfaithful",
        meaning="Too few records are held out to refute the declaration, and the proxy, which "
        "would, is wrong: no conclusion.",
        path="M-0.95,0.3C-0.55,-0.75,-0.25,-0.55,0,0C0.25,0.55,0.55,0.75,0.95,-0.3",
        color="control",
        rank=4,
    ),
    Verdict.DOUBTFUL: Sign(
        word="doubtful",
        meaning="Nothing refutes the declaration, but what the audit was shown leaves doubt "
        "whether a leak would have been seen: no conclusion.",
        path="M-0.5,-0.45A0.5,0.45,0,1,1,0,0.05L0,0.3M0,0.75L0,0.85",
        color="control",
        rank=3,
    ),
    Verdict.NOT_A_GUARANTEE: Sign(
        word="not a guarantee",
        meaning="What was declared lets all records be read at any epsilon.",
        path="M0,-0.85L0,0.25M0,0.7L0,0.8",
        color="violated",
        rank=1,
    ),
    Verdict.VACUOUS: Sign(
        word="vacuous",
        meaning="The declaration says nothing: its delta lets whole labels be published, its "
        "epsilon is larger than policy allows, or randomized response at it changes no label.",
        path="M-0.7,-0.7L0.7,-0.7L0.7,0.7L-0.7,0.7ZM-0.7,0.7L0.7,-0.7",
        color="control",
        rank=2,
    ),
    Verdict.NOT_EVALUABLE: Sign(
        word="not evaluable",
        meaning="There is no figure, for the reason given. This is not a zero.",
        path="M-0.75,0L0.75,0",
        color="muted",
        rank=5,
    ),
    Verdict.UNDECLARED: Sign(
        word="undeclared",
        meaning="A bound, and no declaration to hold it against.",
        path="M-0.75,0A0.75,0.75,0,1,1,0.75,0A0.75,0.75,0,1,1,-0.75,0",
        color="undeclared",
        rank=6,
    ),
    Verdict.PRIVATISED: Sign(
        word="privatised",
        meaning="The labels were privatised before training saw them: the bound speaks of these, "
        "and refutes nothing.",
        path="M-0.8,-0.8L0.8,-0.8L0.8,0.8L-0.8,0.8Z",
        color="undeclared",
        rank=7,
    ),
    Verdict.CONSISTENT: Sign(
        word="consistent",
        meaning="Nothing refutes the declaration. Nothing proves it either.",
        path="M-0.85,0.1L-0.3,0.65L0.85,-0.65",
        color="consistent",
        rank=8,
    ),
}
