"""The actor `log-sink`: logs every event that it receives, as Knative's image of that name does by Apache Camel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from penstock.events.http import HOP_BY_HOP
from penstock.workloads.actors.http_actor import HttpActor
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.shown_certificate import ShownCertificate
from penstock.workloads.server import BodyTooLarge, TakeListener, body_of

PREFIX = "CAMEL_KAMELET_LOG_SINK_"
SERVICE, NO_HTTP = "HTTPS_SERVICE", "DISABLE_HTTP_SERVER"
HEALTH = "/q/health"
MOST_BYTES = 16 * 1024 * 1024
NOT_SHOWN = HOP_BY_HOP | {"authorization"}
"""Headers that are not part of the event. Tokens must not be logged."""
NOTHING = "OFF"
"""The level that disables logging."""
_SECRET = re.compile(
    r"""(?i)((?:passw(?:or)?d|passphrase|secretkey|accesstoken|clientsecret|authorization)"?\s*[=:]\s*"?)[^\s",&}]+"""
)


@dataclass(frozen=True)
class LogOptions:
    """How events are logged."""

    name: str = "log-sink"
    level: str = "INFO"
    marker: str = ""
    masked: bool = False
    multiline: bool = False
    pattern: bool = True
    properties: bool = False
    headers: bool = False
    body_type: bool = True
    body: bool = True

    @classmethod
    def read(cls, env: Mapping[str, str]) -> LogOptions:
        """Reads the environment, with Camel's defaults."""

        def text(name: str, default: str) -> str:
            return env.get(PREFIX + name.upper()) or default

        def flag(name: str, *, default: bool) -> bool:
            return text(name, str(default)).lower() == "true"

        return cls(
            text("loggerName", cls.name),
            text("level", cls.level).upper(),
            text("marker", cls.marker),
            flag("logMask", default=cls.masked),
            flag("multiline", default=cls.multiline),
            flag("showExchangePattern", default=cls.pattern),
            flag("showProperties", default=False) or flag("showAllProperties", default=False),
            flag("showHeaders", default=cls.headers),
            flag("showBodyType", default=cls.body_type),
            flag("showBody", default=cls.body),
        )


class LogSink(HttpActor):
    """The program."""

    def __init__(
        self,
        env: Mapping[str, str],
        log: PodLog,
        take_listener: TakeListener,
        *,
        tls_of: Callable[[str], ShownCertificate],
    ) -> None:
        """`tls_of` gives the certificate of a Service of the Pod's namespace."""
        service = env.get(SERVICE)
        super().__init__(take_listener, tls_of(service) if service else None, plain=env.get(NO_HTTP) != "true")
        self._options, self._log = LogOptions.read(env), log

    async def answer(self, request: Request) -> Response:
        """See `HttpActor`."""
        if request.method == "GET" and request.url.path.startswith(HEALTH):
            return Response(status_code=200)
        if request.method != "POST":
            return Response(status_code=405)
        try:
            body = await body_of(request, MOST_BYTES)
        except BodyTooLarge:
            return Response(status_code=413)
        if self._options.level != NOTHING:
            self._log.write(logged(self._options, request.headers, body))
        return Response(status_code=204)


def logged(options: LogOptions, headers: Mapping[str, str], body: bytes) -> str:
    """The log lines of a request; attributes of an event in binary mode are headers."""
    text = body.decode(errors="replace")
    shown = {name: value for name, value in sorted(headers.items()) if name not in NOT_SHOWN}
    kind = "byte[]" if body else "null"
    parts = [
        *(["ExchangePattern: InOnly"] if options.pattern else []),
        *(["Properties: {}"] if options.properties else []),
        *([f"Headers: {{{', '.join(f'{name}={value}' for name, value in shown.items())}}}"] if options.headers else []),
        *([f"BodyType: {kind}"] if options.body_type else []),
        *([f"Body: {text}" if body else "Body: [Body is null]"] if options.body else []),
    ]
    inside = "".join(f"\n  {part}" for part in parts) + "\n" if options.multiline else ", ".join(parts)
    said = _SECRET.sub(r"\1xxxxx", inside) if options.masked else inside
    marker = f" {options.marker}" if options.marker else ""
    return f"{options.level:<5} [{options.name}]{marker} Exchange[{said}]"
