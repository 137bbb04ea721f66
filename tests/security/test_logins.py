"""Logins and figures go to no host that the settings do not name."""

import contextlib
import types

import httpx
import prefect
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from flows.commands import checks
from workers import isolation


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
@pytest.mark.parametrize("said", ["", "intern.example"])
def test_what_is_sent_to_this_machine_passes_no_proxy(monkeypatch, name, said):
    """Alerts with figures went to a company's proxy, not encrypted."""
    monkeypatch.setenv(name, "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", said)
    monkeypatch.setenv("no_proxy", "")
    isolation.keep_private()
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            chosen = client._transport_for_url(httpx.URL(f"http://{host}:9/hook"))
            assert chosen is client._transport
        elsewhere = client._transport_for_url(httpx.URL("http://hooks.example/"))
        assert elsewhere is not client._transport


@pytest.mark.parametrize("password", [None, "audit:hunter2"])
def test_check_tells_that_a_server_of_prefect_asks_for_no_password(monkeypatch, password):
    """Any web page could start flows by a person's browser: its pages answer all origins."""
    found = types.SimpleNamespace(
        api_healthcheck=lambda: None,
        read_deployment_by_name=lambda _: types.SimpleNamespace(work_pool_name=None),
    )
    monkeypatch.setattr(checks, "_may_name_a_server", lambda: True)
    monkeypatch.setattr(prefect, "get_client", lambda **_: contextlib.nullcontext(found))
    address = {PREFECT_API_URL: "http://127.0.0.1:4200/api", PREFECT_API_AUTH_STRING: password}
    with temporary_settings(address):
        assert ("asks for no password" in checks._prefect()) == (password is None)
