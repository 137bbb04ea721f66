"""The decision about a model file as files that build servers show: JUnit XML and Markdown."""

import xml.etree.ElementTree as ET

from flows.next_steps.gate_decision import Decision
from flows.notify.artifacts import markdown_text
from privcore.rounding import down, guarantee, up
from workers.plain_text import plain_text
from workers.warehouse.schema import AuditRow
from workers.warehouse.serving_decision import Gate

_UNFINISHED = "error"
_UNFINISHED_WHY = "The gate ended before it came to an answer."
_COLUMNS = (
    "model file", "answer", "proved at least", "limit", "ceiling", "would have been seen",
    "training records", "holdout records", "label",
)  # fmt: skip


def junit_xml(row: AuditRow, decision: Decision, *, target: str) -> bytes:
    """Return the decision as JUnit XML: one test case.

    A refuted declaration is a `failure`. An inconclusive audit is an `error` and not `skipped`,
    because build servers count skipped tests as green.
    """
    return _one_case(target, str(decision.answer), decision.why, str(row.verdict), _steps(decision))


def unfinished_junit_xml(target: str) -> bytes:
    """Return a gate that has not answered yet as JUnit XML: an error."""
    return _one_case(target, _UNFINISHED, _UNFINISHED_WHY, "unfinished", [])


def _one_case(target: str, answer: str, why: str, kind: str, steps: list[str]) -> bytes:
    fail, other = answer == Gate.FAIL, answer in {Gate.INCONCLUSIVE, _UNFINISHED}
    counts = {"tests": "1", "failures": str(int(fail)), "errors": str(int(other)), "skipped": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "privaudit gate"} | counts)
    case = ET.SubElement(
        suite, "testcase", {"classname": "privaudit.gate", "name": plain_text(target)}
    )
    said = f"{answer}: {plain_text(why)}"
    if fail or other:
        found = ET.SubElement(case, "failure" if fail else "error", {"type": kind, "message": said})
        found.text = "\n".join(steps)
    ET.SubElement(case, "system-out").text = said
    ET.indent(suites)
    content: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def unfinished_markdown(target: str) -> str:
    """Return a gate that has not answered yet as Markdown."""
    name = markdown_text(plain_text(target))
    return f"## privaudit gate\n\n{name}: **{_UNFINISHED}**. {_UNFINISHED_WHY}\n"


def summary_markdown(row: AuditRow, decision: Decision, *, target: str) -> str:
    """Return the decision as Markdown, in which text of others stands as it is."""
    cells = (
        markdown_text(plain_text(target)),
        f"**{decision.answer}**",
        down(row.epsilon_lower),
        guarantee(row.epsilon_declared, row.delta_declared),
        up(row.epsilon_ceiling),
        up(row.epsilon_detectable),
        _count(row.records),
        _count(row.control_records),
        markdown_text(plain_text(row.label_column or "")),
    )
    lines = [
        "## privaudit gate",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        f"| {' | '.join(cells)} |",
        "",
        markdown_text(plain_text(decision.why)),
        "",
    ]
    if decision.answer is not Gate.PASS:
        lines += [*(f"- {markdown_text(step)}" for step in _steps(decision)), ""]
    return "\n".join(lines) + "\n"


def _steps(decision: Decision) -> list[str]:
    return [f"{step.role} ({step.cost}): {step.text}" for step in decision.card.steps]


def _count(records: int | None) -> str:
    return "" if records is None else f"{records:,}"
