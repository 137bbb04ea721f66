"""The answer of one call, as text of ten lines and as HTML with a plot."""

import html
import math
from dataclasses import dataclass

from privcore.lower_bounds.evidence import Evidence
from privcore.lower_bounds.minimum import leak_to_be_seen
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from privcore.rounding import ABSENT, down, up

_WIDTH = 420


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """Answer of one call; `evidence` has the rest, each figure with its assumption.

    Printed, it is ten lines; in a notebook it is a table with a plot.

    Attributes:
        epsilon_lower: the privacy loss is at least this, under assumption E; NaN where there is no
            figure.
        epsilon_if_proxy_right: at least this if the proxy is right about labels it has not seen.
        epsilon_ceiling: what could have been proved with as many holdout records.
        sees_from: the smallest leak, shown by every label, that four of five such calls would have
            seen; None where none up to 4 beyond the declaration.
        claim_pvalue: smallest significance at which what was declared is rejected; None without.
        verdict: `violated`, `not_refuted`, `inconclusive`, `undeclared` or `failed`.
        reason_code: why, in a fixed word; None for `not_refuted`.
        reason: the sentence that explains the verdict.
        evidence: everything that was read.

    >>> from privcore import AuditAnswer
    >>> AuditAnswer.__slots__[0], AuditAnswer.__slots__[-1]
    ('epsilon_lower', 'evidence')
    """

    epsilon_lower: float
    epsilon_if_proxy_right: float | None
    epsilon_ceiling: float
    sees_from: float | None
    claim_pvalue: float | None
    verdict: Verdict
    reason_code: ReasonCode | None
    reason: str
    evidence: Evidence

    def __str__(self) -> str:
        """Return the answer in ten lines: every figure with its meaning, and the reason."""
        width = max(len(name) for name, _, _ in self._rows())
        lines = [f"{name:<{width}}  {value:>8}  {said}" for name, value, said in self._rows()]
        return "\n".join([self.said, self.reason, *lines])

    @property
    def said(self) -> str:
        """The verdict and why: "inconclusive: few_held_out"."""
        return f"{self.verdict}: {self.reason_code}" if self.reason_code else str(self.verdict)

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{html.escape(value)}</td>"
            f"<td style='text-align:left'>{html.escape(said)}</td></tr>"
            for name, value, said in self._rows()
        )
        return (
            f"<p><b>{html.escape(self.said)}</b>: {html.escape(self.reason)}</p>"
            f"{self._plot()}<table>{rows}</table>"
        )

    def _rows(self) -> list[tuple[str, str, str]]:
        declared = self.evidence.claim.epsilon
        pvalue = ABSENT if self.claim_pvalue is None else f"{self.claim_pvalue:.2g}"
        level = f"{self.evidence.claim.significance:g}"
        conclusive = None if declared is None else leak_to_be_seen(declared)
        told = "a leak shown by every label, in 4 of 5 such calls (not a mechanism's epsilon)"
        training, held = self.evidence.records, self.evidence.control_records
        counted = f"seen by training; {held:,} held out, method {self.evidence.method}"
        return [
            ("epsilon_lower", down(self.epsilon_lower), f"at least; wrong with p <= {level}"),
            ("epsilon_declared", up(declared), "declared"),
            ("sees_from", up(self.sees_from), told),
            ("conclusive_at", up(conclusive), "what a conclusive call sees"),
            ("epsilon_ceiling", up(self.epsilon_ceiling), "the most that could be proved"),
            ("epsilon_if_proxy_right", down(self.epsilon_if_proxy_right), "no accusation"),
            ("claim_pvalue", pvalue, "of the declaration"),
            ("records", f"{training:,}", counted),
        ]

    def _plot(self) -> str:
        """Return bars of the bound and the ceiling, and a line at the declaration, as SVG."""
        declared, ceiling = self.evidence.claim.epsilon, _shown(self.epsilon_ceiling)
        lower = _shown(self.epsilon_lower)
        scale = (_WIDTH - 150) / max(lower, ceiling, declared or 0.0, 1.0)
        bars = "".join(
            f"<text x='0' y='{y + 12}' font-size='12' fill='currentColor'>{name}</text>"
            f"<rect x='100' y='{y}' width='{value * scale:.1f}' height='14' fill='{color}'/>"
            for name, value, color, y in (
                ("at least", lower, "#27588f", 4),
                ("ceiling", ceiling, "#b9bec7", 26),
            )
        )
        line = ""
        if declared is not None:
            x = f"{100 + declared * scale:.1f}"
            line = (
                f"<line x1='{x}' x2='{x}' y1='0' y2='46' stroke='#b3261e' stroke-width='2'/>"
                f"<text x='{x}' y='58' font-size='12' fill='#b3261e'>declared</text>"
            )
        words = f"At least {down(self.epsilon_lower)}, ceiling {up(self.epsilon_ceiling)}"
        return (
            f"<svg width='{_WIDTH}' height='62' role='img' aria-label='{words}'>{bars}{line}</svg>"
        )


def _shown(value: float) -> float:
    return value if math.isfinite(value) else 0.0
