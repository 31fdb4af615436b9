"""What the programs of IntegrationSources and IntegrationSinks send and log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import TextIO

import pytest

from penstock.events.event import CloudEvent
from penstock.web.http_clients import HttpResponse
from penstock.workloads.actors.log_sink import LogOptions, logged
from penstock.workloads.actors.options import TOKEN, BrokenEnvironment
from penstock.workloads.actors.outgoing import NotSent
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.timer_source import TimerOptions, TimerSource, timer_event
from penstock.workloads.actors.volume_files import VolumeFiles
from penstock.workloads.images import Exit

TIMER = "CAMEL_KAMELET_TIMER_SOURCE_"
LOG = "CAMEL_KAMELET_LOG_SINK_"
HEADERS = {"host": "sink", "connection": "close", "ce-type": "t", "authorization": "Bearer secret"}


def test_a_timer_sends_what_it_is_told() -> None:
    overrides = '{"extensions":{"room":"cellar","subject":"other"}}'
    env = {f"{TIMER}MESSAGE": "hello", f"{TIMER}PERIOD": "2000", "K_SINK": "http://s", "K_CE_OVERRIDES": overrides}
    options = TimerOptions.read(env)
    assert (options.period, options.repeat, options.token) == (2.0, 0, "")
    assert timer_event(options, "1", "now") == CloudEvent(
        {
            "specversion": "1.0",
            "id": "1",
            "type": "dev.knative.eventing.timer",
            "source": "dev.knative.eventing.timer-source",
            "subject": "other",
            "time": "now",
            "datacontenttype": "text/plain",
            "room": "cellar",
        },
        b"hello",
    )


@pytest.mark.parametrize("env", [{}, {"K_SINK": "http://s", f"{TIMER}PERIOD": "often"}, {"K_CE_OVERRIDES": "["}])
def test_a_timer_that_cannot_send_says_so_at_once(env: dict[str, str]) -> None:
    with pytest.raises(BrokenEnvironment):
        TimerOptions.read(env)


def test_a_timer_reads_a_token_where_its_sink_asks_for_one() -> None:
    env = {"K_SINK": "https://s", "K_CA_CERTS": "own", "CAMEL_KNATIVE_CLIENT_OIDC_ENABLED": "true"}
    options = TimerOptions.read(env)
    assert (options.certificates, options.token) == ("own", "/oidc/token")
    assert TimerOptions.read({**env, TOKEN: "/other"}).token == "/other"
    assert TimerOptions.read({**env, "CAMEL_KNATIVE_CLIENT_OIDC_ENABLED": ""}).token == ""


class SinkDouble:
    """Takes requests in place of the connections of a program."""

    def __init__(self, answers: Callable[[], HttpResponse]) -> None:
        self._answers = answers
        self.sent: list[tuple[str, str, dict[str, str], bytes | None]] = []
        self.closed = False

    async def send(self, method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes | None) -> HttpResponse:
        self.sent.append((method, url, dict(headers), body))
        return self._answers()

    async def close(self) -> None:
        self.closed = True


async def run_timer(env: dict[str, str], sink: SinkDouble, files: VolumeFiles, shown: TextIO) -> list[float]:
    """Runs a timer until it has sent all its events; its pauses."""
    pauses: list[float] = []
    done = asyncio.Event()
    options = TimerOptions.read(env)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == options.repeat + 1:
            done.set()

    program = TimerSource(options, PodLog(shown), sink, files, sleep)  # type: ignore[arg-type]  # a double
    running = asyncio.create_task(program.run(lambda: None))
    async with asyncio.timeout(60):
        await done.wait()
        program.stop(0)
        assert await running == Exit(0)
    assert sink.closed
    return pauses


async def test_a_timer_shows_the_token_that_its_volume_holds(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    env = {"K_SINK": "https://s", "CAMEL_KNATIVE_CLIENT_OIDC_ENABLED": "true", f"{TIMER}REPEATCOUNT": "1"}
    sink = SinkDouble(lambda: HttpResponse(202, [], b""))
    await run_timer(env, sink, VolumeFiles([("/oidc", str(tmp_path))]), StringIO())
    ((method, url, headers, _body),) = sink.sent
    assert (method, url, headers["Authorization"]) == ("POST", "https://s", "Bearer t")


async def test_a_timer_sends_nothing_without_the_token_that_is_asked_for(tmp_path: Path) -> None:
    env = {"K_SINK": "https://s", "CAMEL_KNATIVE_CLIENT_OIDC_ENABLED": "true", f"{TIMER}REPEATCOUNT": "1"}
    sink, shown = SinkDouble(lambda: HttpResponse(202, [], b"")), StringIO()
    await run_timer({**env, TOKEN: "/oidc/../../secret"}, sink, VolumeFiles([("/oidc", str(tmp_path))]), shown)
    assert not sink.sent
    assert "is not in a volume of this container" in shown.getvalue()


async def test_a_timer_goes_on_after_an_event_that_could_not_be_sent() -> None:
    def fail() -> HttpResponse:
        raise NotSent("NodeRefused: http://s leads nowhere")

    env = {"K_SINK": "http://s", f"{TIMER}PERIOD": "500", f"{TIMER}REPEATCOUNT": "3"}
    sink, shown = SinkDouble(fail), StringIO()
    assert await run_timer(env, sink, VolumeFiles(), shown) == [1.0, 0.5, 0.5, 0.5]
    assert shown.getvalue().count("leads nowhere") == 3


async def test_a_timer_logs_an_event_that_was_not_taken() -> None:
    sink, shown = SinkDouble(lambda: HttpResponse(503, [], b"")), StringIO()
    await run_timer({"K_SINK": "http://s", f"{TIMER}REPEATCOUNT": "1"}, sink, VolumeFiles(), shown)
    assert "an event was rejected by http://s: 503" in shown.getvalue()


def test_a_sink_logs_as_camel_does() -> None:
    options = LogOptions.read({})
    assert logged(options, HEADERS, b"hello") == (
        "INFO  [log-sink] Exchange[ExchangePattern: InOnly, BodyType: byte[], Body: hello]"
    )
    assert logged(options, HEADERS, b"").endswith("BodyType: null, Body: [Body is null]]")


def test_a_sink_logs_what_is_asked_for() -> None:
    env = {"SHOWHEADERS": "true", "LOGGERNAME": "n", "LEVEL": "warn", "MARKER": "m", "SHOWPROPERTIES": "true"}
    env |= {"SHOWBODYTYPE": "false", "SHOWEXCHANGEPATTERN": "false"}
    options = LogOptions.read({f"{LOG}{name}": value for name, value in env.items()})
    assert logged(options, HEADERS, b"x") == (
        "WARN  [n] m Exchange[Properties: {}, Headers: {ce-type=t, host=sink}, Body: x]"
    ), "tokens and headers of the connection are not shown"
    lines = LogOptions.read({f"{LOG}MULTILINE": "true"})
    assert logged(lines, HEADERS, b"x").split("\n")[1:3] == ["  ExchangePattern: InOnly", "  BodyType: byte[]"]


def test_a_sink_hides_passwords_where_it_is_told() -> None:
    body = b'{"password": "swordfish", "user": "u"}, secretKey=abc'
    masked = logged(LogOptions.read({f"{LOG}LOGMASK": "true"}), HEADERS, body)
    assert '"password": "xxxxx", "user": "u"}, secretKey=xxxxx' in masked
    assert "swordfish" in logged(LogOptions.read({}), HEADERS, body)
