"""Pages of Prefect: how verdicts are counted, and that a link that is not taken costs no audit."""

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from flows.notify import prefect_context
from flows.notify.prefect_context import counted, link_report
from privcore.lower_bounds.verdicts import Verdict
from tests.support.report import record


def refuse(*_, **__):
    """Fail as the client does while the server's database is away."""
    request = httpx.Request("POST", "http://server/api/artifacts/")
    raise PrefectHTTPStatusError("500", request=request, response=httpx.Response(500))


@pytest.mark.usefixtures("in_a_run")
def test_a_link_that_the_server_does_not_take_fails_nothing(monkeypatch, caplog):
    monkeypatch.setattr(prefect_context, "create_link_artifact", refuse)
    link_report("/var/report/index.html")
    assert caplog.text == ""
    link_report("https://reports.example.com/")
    assert "did not take the link to the report: 500" in caplog.text


def test_verdicts_are_counted_the_worst_first():
    alone = [record(verdict=one) for one in (Verdict.VIOLATED, Verdict.FAILED)]
    together = record(verdict=Verdict.NOT_REFUTED, verdict_together=Verdict.INCONCLUSIVE)
    assert counted([together, *alone]) == "1 violated, 1 failed, 1 inconclusive."
    assert counted([]) == "No audit."
