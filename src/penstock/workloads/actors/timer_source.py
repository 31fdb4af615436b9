"""The actor `timer-source`: sends the same message at intervals, as Knative's image of that name does by Apache Camel.

As there, an event that the sink rejects is logged and not sent again.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.runtime.lifecycle import first
from penstock.runtime.times import rfc3339
from penstock.workloads.actors.options import DEFAULT_PATHS, TOKEN, BrokenEnvironment
from penstock.workloads.actors.outgoing import NotSent, Outgoing
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.volume_files import VolumeFiles
from penstock.workloads.images import Exit, Stoppable

PREFIX = "CAMEL_KAMELET_TIMER_SOURCE_"
TYPE, SOURCE, SUBJECT = "dev.knative.eventing.timer", "dev.knative.eventing.timer-source", "timer-source"
OIDC_ENABLED = "CAMEL_KNATIVE_CLIENT_OIDC_ENABLED"
FIRST_SECONDS = 1.0
"""Before the first event."""


@dataclass(frozen=True)
class TimerOptions:
    """What is sent, when, and where to."""

    sink: str
    period: float
    message: str
    content_type: str
    repeat: int
    """0: without end."""
    overrides: Mapping[str, str]
    certificates: str
    """CA certificates of the sink in PEM, in addition to the trust bundles."""
    token: str
    """The file with the token to send. Empty: no token."""

    @classmethod
    def read(cls, env: Mapping[str, str]) -> TimerOptions:
        """Parses the environment. Raises BrokenEnvironment."""
        try:
            overrides = (json.loads(env.get("K_CE_OVERRIDES") or "{}") or {}).get("extensions") or {}
            period, repeat = int(env.get(f"{PREFIX}PERIOD") or 1000), int(env.get(f"{PREFIX}REPEATCOUNT") or 0)
        except (ValueError, AttributeError) as error:
            raise BrokenEnvironment(str(error)) from error
        if not env.get("K_SINK"):
            raise BrokenEnvironment("K_SINK is empty")
        return cls(
            env["K_SINK"],
            max(period, 1) / 1000,
            env.get(f"{PREFIX}MESSAGE", ""),
            env.get(f"{PREFIX}CONTENTTYPE") or "text/plain",
            repeat,
            {str(name): str(value) for name, value in overrides.items()},
            env.get("K_CA_CERTS", ""),
            (env.get(TOKEN) or DEFAULT_PATHS[TOKEN]) if env.get(OIDC_ENABLED) == "true" else "",
        )


class TimerSource(Stoppable):
    """The program."""

    def __init__(
        self,
        options: TimerOptions,
        log: PodLog,
        outgoing: Outgoing,
        files: VolumeFiles,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        super().__init__()
        self._options, self._log, self._sleep = options, log, sleep
        self._outgoing, self._files = outgoing, files

    async def run(self, ready: Callable[[], None]) -> Exit:
        """See `Run`."""
        ready()
        try:
            await first(self._stop.wait(), self._send_all())
        finally:
            await self._outgoing.close()
        return Exit(0)

    async def _send_all(self) -> None:
        options, sent = self._options, 0
        await self._sleep(FIRST_SECONDS)
        while not options.repeat or sent < options.repeat:
            try:
                await self._send(timer_event(options, str(uuid.uuid4()), rfc3339()))
            except (NotSent, OSError, UnicodeDecodeError) as error:
                self._log.write(f"an event could not be sent to {options.sink}: {type(error).__name__}: {error}")
            sent += 1
            await self._sleep(options.period)
        await self._stop.wait()

    async def _send(self, event: CloudEvent) -> None:
        options = self._options
        headers, body = http.to_binary(event)
        if options.token:  # renewed from time to time
            token = (await self._files.read(options.token)).decode().strip()
            headers = [*headers, ("Authorization", f"Bearer {token}")]
        response = await self._outgoing.send("POST", options.sink, headers, body)
        if not 200 <= response.status < 300:
            self._log.write(f"an event was rejected by {options.sink}: {response.status}")


def timer_event(options: TimerOptions, event_id: str, now: str) -> CloudEvent:
    """One event."""
    attributes = {"specversion": "1.0", "id": event_id, "type": TYPE, "source": SOURCE, "subject": SUBJECT}
    attributes |= {"time": now, "datacontenttype": options.content_type}
    return CloudEvent({**attributes, **options.overrides}, options.message.encode())
