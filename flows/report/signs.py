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
    """

    word: str
    meaning: str
    path: str
    color: str


_PATHS = {
    Verdict.VIOLATED: "M-0.75,-0.75L0.75,0.75M0.75,-0.75L-0.75,0.75",
    Verdict.FAILED: "M0,-0.85L0,0.25M0,0.7L0,0.8",
    Verdict.INCONCLUSIVE: "M-0.5,-0.45A0.5,0.45,0,1,1,0,0.05L0,0.3M0,0.75L0,0.85",
    Verdict.NOT_REFUTED: "M-0.85,0.1L-0.3,0.65L0.85,-0.65",
    Verdict.UNDECLARED: "M-0.75,0A0.75,0.75,0,1,1,0.75,0A0.75,0.75,0,1,1,-0.75,0",
}
SIGNS = {
    verdict: Sign(
        verdict.replace("_", " "), verdict.meaning, _PATHS[verdict], verdict.replace("_", "-")
    )
    for verdict in Verdict
}
"""In the order in which readers should see them."""
