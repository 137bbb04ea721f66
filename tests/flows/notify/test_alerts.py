"""Alerts through a real HTTP receiver on this machine, and Prefect's events."""

import contextlib
import hashlib
import hmac
import http.server
import json
import time
from types import SimpleNamespace

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from flows.notify import alerts
from flows.notify.alerts import SIGNATURE, TIMESTAMP, WebhookError, deliver, send
from flows.notify.events import Event, Kind
from flows.notify.incidents import Stage
from flows.settings import WebhookSettings
from tests.support.http_server import Answering, running
from tests.support.lake import DAY
from workers import patience
from workers.patience import ONCE, Patience

SECRET = "a secret of this test"  # noqa: S105
PAYLOAD = {"subject": "ads <script> on 2026-03-02", "id": "1", "figures": {"epsilon_lower": 1.5}}


class Receiver(http.server.ThreadingHTTPServer):
    """Answers with the given codes in turn, the last one for ever, and keeps what it was sent.

    In place of codes it takes one function, whose chunks of bytes it answers.
    """

    def __init__(self, *codes):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codes = list(codes)
        self.taken: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/alerts"


class _Handler(Answering):
    server: Receiver

    def respond(self):
        self.server.taken.append((dict(self.headers), self.body()))
        codes = self.server.codes
        if callable(codes[0]):
            with contextlib.suppress(OSError):
                for chunk in codes[0]():
                    self.wfile.write(chunk)
            return
        self.answer(codes.pop(0) if len(codes) > 1 else codes[0], Location="/elsewhere")


@contextlib.contextmanager
def started():
    """Yield what makes a receiver and starts it; all of them end with the test."""
    with contextlib.ExitStack() as stack:

        def start(*codes):
            server = Receiver(*codes)
            stack.enter_context(running(server))
            return server

        yield start


@pytest.fixture(autouse=True)
def _rested(monkeypatch):
    monkeypatch.setattr(alerts, "_rests", {})


@pytest.fixture
def receiver():
    with started() as start:
        yield start


def post(url, attempts=3):
    """Send to a webhook; return the seconds that were waited."""
    slept = []
    webhook = WebhookSettings(url=url, secret=SecretStr(SECRET))
    tried = Patience(attempts=attempts, first=1.0, longest=4.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(patience, "time", SimpleNamespace(sleep=slept.append))
        send(webhook, PAYLOAD, patience=tried)
    return slept


def test_an_alert_arrives_as_json_with_a_signature_that_only_the_secret_makes(receiver):
    server = receiver(204)
    assert post(server.url) == []
    ((headers, body),) = server.taken
    assert json.loads(body) == PAYLOAD
    signed = headers[TIMESTAMP].encode() + b"." + body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == f"sha256={expected}"
    assert abs(int(headers[TIMESTAMP]) - time.time()) < 60
    assert headers["Content-Type"] == "application/json"
    assert SECRET not in str(headers) + body.decode()


@pytest.mark.parametrize("code", [500, 503, 429, 408])
def test_what_may_go_away_is_tried_again_after_growing_pauses(receiver, code):
    server = receiver(code, code, 200)
    slept = post(server.url)
    assert len(server.taken) == 3
    assert len({body for _, body in server.taken}) == 1
    assert 1.0 <= slept[0] <= 1.5
    assert 2.0 <= slept[1] <= 3.0


@pytest.mark.parametrize("code", [400, 401, 404, 410])
def test_what_repeating_cannot_mend_is_tried_once(receiver, code):
    server = receiver(code)
    with pytest.raises(WebhookError, match=f"status {code}"):
        post(server.url)
    assert len(server.taken) == 1


def test_a_webhook_that_stays_away_is_an_error_that_names_the_alert(receiver):
    server = receiver(502)
    with pytest.raises(WebhookError, match=r"ads <script> on 2026-03-02.*status 502"):
        post(server.url)
    assert len(server.taken) == 3
    server.shutdown()
    server.server_close()
    alerts._rests.clear()
    with pytest.raises(WebhookError, match="ConnectError"):
        post(server.url, attempts=1)


def test_a_redirect_is_not_followed(receiver):
    server = receiver(302)
    with pytest.raises(WebhookError, match="status 302"):
        post(server.url, attempts=1)
    assert len(server.taken) == 1


def slow_head():
    yield b"HTTP/1.1 200 OK\r\nX: "
    while True:
        time.sleep(0.1)
        yield b"x"


def silence():
    time.sleep(30)
    yield b""


@pytest.mark.parametrize("chunks", [slow_head, silence])
def test_a_try_ends_in_time_however_slowly_it_is_answered(receiver, chunks, monkeypatch):
    monkeypatch.setattr(alerts, "_TIMEOUT", 1.0)
    server, begun = receiver(chunks), time.monotonic()
    with pytest.raises(WebhookError, match="Timeout"):
        post(server.url, attempts=1)
    assert time.monotonic() - begun < 10.0


def test_a_silent_webhook_delays_a_night_by_minutes_whatever_the_number_of_alerts(monkeypatch):
    """Each of 200 alerts was tried for 80 to 95 seconds, one after the other."""
    clock, tries = [1_000.0], []

    async def silent(_webhook, body):
        clock[0] += 10.0
        tries.append(json.loads(body)["id"])
        raise TimeoutError

    monkeypatch.setattr(alerts, "_post", silent)
    monkeypatch.setattr(alerts.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        patience.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds)
    )
    webhook = WebhookSettings(url="https://silent.example/alerts", secret=SecretStr(SECRET))

    def alert(number):
        with pytest.raises(WebhookError) as found:
            send(webhook, PAYLOAD | {"id": str(number)})
        return str(found.value)

    said = [alert(number) for number in range(200)]
    assert clock[0] - 1_000.0 < 150.0
    assert tries == ["0"] * 5
    assert "did not take the alert" in said[0]
    assert "is left alone for 600" in said[-1]
    clock[0] += 600.0
    assert "did not take the alert" in alert(200)
    assert tries[5:] == ["200"] * 5


@pytest.mark.parametrize("url", ["https://a\nb/", "https://xn--/"])
def test_an_address_that_is_none_ends_no_delivery(url):
    """It was an unexpected error, after which no alert of the night was sent."""
    webhook = WebhookSettings.model_validate({"url": url, "secret": "0123456789abcdef" * 3})
    with pytest.raises(WebhookError, match="did not take"):
        send(webhook, {"subject": "s"}, patience=ONCE)


def test_an_event_is_about_its_model_and_says_its_stage(settings, monkeypatch):
    emitted = []
    monkeypatch.setattr(alerts, "emit_event", lambda **given: emitted.append(given))
    event = Event(Kind.VIOLATED, "ads", DAY, "It is.", "So.", stage=Stage.GOES_ON)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        deliver(event, settings)
        assert emitted == []  # outside of a run, no server is started to hear it
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        deliver(event, settings)
    (told,) = emitted
    assert told["event"] == "privaudit.violated"
    assert told["resource"]["prefect.resource.id"] == "privaudit.model.ads"
    assert told["resource"]["privaudit.stage"] == "goes_on"
    assert told["id"] == event.id
    assert told["payload"] == event.payload()


__all__ = ["receiver"]  # a fixture
