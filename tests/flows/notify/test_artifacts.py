"""Pages of Prefect: what a summary says, and that one that is not taken costs no audit."""

from typing import NoReturn

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from flows.notify import prefect_context
from flows.notify.prefect_context import counted, summary
from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed
from workers.warehouse.nights_together import AuditedNight


def refuse(*_: object, **__: object) -> NoReturn:
    """Fail as the client does while the server's database is away."""
    request = httpx.Request("POST", "http://server/api/artifacts/")
    raise PrefectHTTPStatusError("500", request=request, response=httpx.Response(500))


pytestmark = pytest.mark.usefixtures("in_a_run")


def test_a_summary_that_the_server_does_not_take_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prefect_context, "create_markdown_artifact", refuse)
    prefect_context.leave_summary("key", "text", "what")
    assert "did not take the summary: 500" in caplog.text


def test_a_summary_counts_five_words_and_rounds_against_a_false_alarm() -> None:
    night = AuditedNight(
        **evaluated("ads", DAY, sees_from=2.041, epsilon_lower=0.239).audit.model_dump(),
        verdict_together="inconclusive",
        reason_code_together="nights_needed",
        sees_from_together=1.101,
    )
    refuted = {"verdict": "violated", "reason_code": "this_night", "epsilon_lower": 1.239}
    rows = [night, evaluated("b", DAY, **refuted).audit, failed("c", DAY).audit]
    assert counted(rows) == "1 violated, 1 failed, 1 inconclusive."
    assert counted([]) == "No audit."
    lines = [line.split(" | ") for line in summary("Night", rows, report=None).splitlines()]
    table = [[cell.strip("| ") for cell in line] for line in lines if len(line) > 7]
    of_ads, of_b, of_c = table[2:]
    said = "privacy engineer: Wait: nights like these"
    assert of_ads[:7] == [
        str(DAY), "ads", "inconclusive", r"nights\_needed", "0.5", "0.23", "2.05 / 1.11",
    ]  # fmt: skip
    assert of_ads[7].startswith(said)
    assert (of_b[2], of_b[5]) == ("**violated**", "1.23")
    assert (of_c[2], of_c[3]) == ("**failed**", r"labels\_missing")
