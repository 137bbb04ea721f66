"""Prometheus' rules and Grafana's dashboard in deploy/, against the metrics that are written."""

import datetime as dt
import json
import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from flows.notify.metrics import HELP, PREFIX, metrics_text
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from tests.support.warehouse import latest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "alerts.yaml"
RULES = yaml.safe_load(RULES_FILE.read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "privaudit.json").read_text())
QUERIES = [one["expr"] for panel in DASHBOARD["panels"] for one in panel["targets"]]
BY_NAME = {rule["alert"]: rule for rule in RULES}
has_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed"
)


def promtool(*arguments: str, text: str | None = None) -> None:
    ran = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def takes(expression: str, verdict: str, code: str) -> bool:
    """Return whether an expression's selector takes a verdict and its reason."""
    labels = {"verdict": verdict, "reason_code": code}
    (selector,) = re.findall(r"privaudit_verdict\{(.*?)\}", expression)
    return all(
        (re.fullmatch(pattern, labels[name]) is None) is (sign == "!~")
        for name, sign, pattern in re.findall(r'(verdict|reason_code)(=~|!~|=)"(.*?)"', selector)
    )


@pytest.mark.parametrize("expression", [*QUERIES, *(rule["expr"] for rule in RULES)])
def test_every_expression_names_metrics_that_are_written(expression):
    named = set(re.findall(rf"{PREFIX}(\w+)", expression))
    assert named
    assert named <= set(HELP)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_every_rule_says_how_urgent_it_is_and_what_to_do(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert set(rule["annotations"]) == {"summary", "description"}
    for page in re.findall(r"docs/[\w/-]+\.md", rule["annotations"]["description"]):
        assert (ROOT / page).is_file()
    assert rule["labels"] == {
        "severity": "page" if rule["alert"] == "PrivauditViolated" else "ticket"
    }


@pytest.mark.parametrize("code", [None, *ReasonCode])
def test_each_reason_has_one_rule_or_is_told_to_nobody(code):
    verdict = Verdict.NOT_REFUTED if code is None else code.verdict
    of_verdicts = [rule for rule in RULES if 'privaudit_verdict{verdict="' in rule["expr"]]
    told = [one["alert"] for one in of_verdicts if takes(one["expr"], verdict, code or "")]
    doubt = code is not None and verdict is Verdict.INCONCLUSIVE and not code.by_size
    expected = {
        Verdict.VIOLATED: ["PrivauditViolated", "PrivauditViolationAcknowledged"],
        Verdict.FAILED: ["PrivauditFailed"],
        Verdict.INCONCLUSIVE: ["PrivauditInconclusive"] * doubt,
    }
    assert told == expected.get(verdict, [])
    counts = [panel for panel in DASHBOARD["panels"] if panel["type"] == "stat"][:3]
    shown = [
        panel["title"]
        for panel in counts
        if takes(panel["targets"][0]["expr"].split(" or ")[0], verdict, code or "")
    ]
    panels = {
        Verdict.VIOLATED: ["Violated"],
        Verdict.FAILED: ["Failed or in doubt"],
        Verdict.INCONCLUSIVE: ["Failed or in doubt" if doubt else "Inconclusive by size"],
    }
    assert shown == panels.get(verdict, [])


@has_promtool
def test_promtool_takes_rules_queries_and_the_file(tmp_path):
    promtool("check", "rules", str(RULES_FILE))
    queries = [
        {"record": f"query:{number}", "expr": query.replace("$model", "ads")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": queries}]}))
    promtool("check", "rules", str(file))
    text = metrics_text([latest('a"d\\s')], dt.UTC, ["ads"])
    promtool("check", "metrics", text=text)


def series(name: str, value: str, **labels: str) -> dict[str, str]:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return {"series": f"{PREFIX}{name}{{{inside}}}", "values": value}


def fired(alert: str, at: str, *who: dict[str, str]) -> dict[str, Any]:
    """Return what promtool expects of a rule at a time: one alert for each set of labels."""
    severity = BY_NAME[alert]["labels"]["severity"]
    return {
        "eval_time": at,
        "alertname": alert,
        "exp_alerts": [{"exp_labels": {"severity": severity, **labels}} for labels in who],
    }


@has_promtool
def test_the_rules_fire_once_for_each_claim_and_resolve(tmp_path):
    """Played by Prometheus' own engine, an hour a step, through four days.

    `ads` is violated until hour 48; `feed` is violated; `small` is inconclusive by size; `off` has
    a wrong proxy; `bad` failed; `late` is not audited again; `new` never was; `known` is violated
    and acknowledged until hour 24, though nobody writes the file again.
    """
    hours, day = 97, 86_400
    ads = {"model": "ads", "secret": "label"}
    feed, small, late, known = (
        ads | {"model": name} for name in ("feed", "small", "late", "known")
    )
    violated = {"verdict": "violated", "reason_code": "nights_together"}
    off = ads | {"model": "off", "verdict": "inconclusive", "reason_code": "proxy_wrong"}
    bad = ads | {"model": "bad", "verdict": "failed", "reason_code": "labels_missing"}
    inputs = [
        series("verdict", "1x48 _x48", **ads, **violated),
        series("verdict", "_x48 1x48", **ads, verdict="not_refuted", reason_code=""),
        series("verdict", f"1x{hours}", **feed, **violated),
        series("verdict", f"1x{hours}", **known, **violated),
        series(
            "verdict", f"1x{hours}", **small, verdict="inconclusive", reason_code="nights_needed"
        ),
        series("verdict", f"1x{hours}", **off),
        series("verdict", f"1x{hours}", **bad),
        series("verdict", f"1x{hours}", **late, verdict="not_refuted", reason_code=""),
        series("acknowledged_until_seconds", f"{day}x{hours}", **known),
        series("audited_day_end_seconds", f"0+3600x{hours}", **ads),
        series("audited_day_end_seconds", f"{-day // 2}x{hours}", **late),
        series("model_listed", f"1x{hours}", model="ads"),
        series("model_listed", f"1x{hours}", model="new"),
    ]
    expected = [
        fired("PrivauditViolated", "10h", ads, feed),
        fired("PrivauditViolationAcknowledged", "10h", known),
        fired("PrivauditViolationAcknowledged", "25h"),
        fired("PrivauditViolated", "25h", ads, feed, known),
        fired("PrivauditViolated", "60h", feed, known),
        fired("PrivauditInconclusive", "10h", off),
        fired("PrivauditFailed", "10h", bad),
        fired("PrivauditOldAudit", "23h"),
        fired("PrivauditOldAudit", "25h", late),
        fired("PrivauditNeverAudited", "47h"),
        fired("PrivauditNeverAudited", "49h", {"model": "new"}),
        fired("PrivauditNoMetrics", "49h"),
    ]
    silence = [fired("PrivauditNoMetrics", "0h"), fired("PrivauditNoMetrics", "2h", {})]
    tests = {
        "rule_files": [str(_without_annotations(tmp_path))],
        "evaluation_interval": "1h",
        "tests": [
            {"interval": "1h", "input_series": inputs, "alert_rule_test": expected},
            {"interval": "1h", "input_series": [], "alert_rule_test": silence},
        ],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump(tests))
    promtool("test", "rules", str(file))


def _without_annotations(folder: pathlib.Path) -> pathlib.Path:
    """Return a copy of the rules without their sentences, which promtool would compare too."""
    rules = [{key: rule[key] for key in rule if key != "annotations"} for rule in RULES]
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "privaudit", "rules": rules}]}))
    return file


def test_a_dashboard_without_metrics_is_not_green():
    """Each of its four counts was a green nought where Prometheus had no result at all."""
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "privaudit.json").read_text("utf-8"))
    counts = [panel for panel in dashboard["panels"] if panel["type"] == "stat"]
    assert len(counts) == 4
    for panel in counts:
        shown = panel["fieldConfig"]["defaults"]
        assert shown["noValue"] == "no data"
        (mapping,) = shown["mappings"]
        assert (mapping["options"]["match"], mapping["options"]["result"]["color"]) == (
            "null+nan", "orange",
        )  # fmt: skip
        for query in panel["targets"]:
            assert "vector(" not in query["expr"]
            assert query["expr"].endswith('or 0 * count(privaudit_verdict{model=~"$model"})')
