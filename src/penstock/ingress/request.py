"""A request as the connection hands it to the application: its head at once, its body when all of it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.events.event import CloudEvent, MalformedEvent
from penstock.events.http import fold_headers
from penstock.ingress import responses
from penstock.ingress.responses import Response
from penstock.ingress.targets import ResolvedTarget, path_of


class Request:
    """One request. The application responds once, now or later."""

    __slots__ = (
        "_reply",
        "answered",
        "body",
        "complete",
        "framing",
        "headers",
        "is_secure",
        "keep_alive",
        "method",
        "parent",
        "refusal",
        "resolved",
        "sender",
        "span",
        "started",
        "url",
    )

    def __init__(
        self,
        method: bytes,
        url: bytes,
        raw: list[tuple[bytes, bytes]],
        reply: Callable[[Request, Response], None],
        is_secure: bool = False,
        *,
        version: str = "1.1",
    ) -> None:
        self.started = time.time_ns()
        self.is_secure = is_secure
        """Whether it came over TLS."""
        self.method, self.url = method, url
        self.refusal: Response | None = None
        """The response where the head is invalid; sent once the target is known."""
        self.framing: Response | None = None
        """The response where the head is not valid HTTP, whatever its target is."""
        self.headers: Mapping[str, str] = {}
        """Names in lower case."""
        try:
            self.headers = fold_headers(raw)
        except MalformedEvent as error:
            self.refusal = responses.malformed(str(error))
        else:
            self.framing = self._wrong_framing(version)
        self.resolved: ResolvedTarget | None = None
        self.sender: Sender | None = None
        """The authenticated sender, where the target restricts who may send."""
        self.parent: str | None = None
        """Its `traceparent`."""
        self.span = ""
        """The `traceparent` that its events get."""
        self.body: bytes | bytearray = b""
        self.complete = self.answered = False
        self.keep_alive = True
        self._reply = reply

    def _wrong_framing(self, version: str) -> Response | None:
        host = self.headers.get("host")
        if host is None:
            return responses.NO_HOST if version > "1.0" else None
        if "," in host:  # two Host headers are folded with a comma, which no host name contains
            return responses.MANY_HOSTS
        coding = self.headers.get("transfer-encoding", "")
        # One that does not end with chunked has no end, and is refused by the parser.
        return responses.CODED if "," in coding and coding.lower().endswith("chunked") else None

    def add(self, chunk: bytes) -> None:
        """More of the body. It nearly always arrives in one piece, which is not copied."""
        if not self.body:
            self.body = chunk
        elif isinstance(self.body, bytes):
            self.body = bytearray(self.body) + chunk
        else:
            self.body += chunk

    def reply(self, response: Response) -> None:
        """Sends the response."""
        self._reply(self, response)

    @property
    def declared_length(self) -> int:
        """What the sender says about the size of the body."""
        return int(self.headers.get("content-length", 0))  # the parser has let digits through only

    @property
    def path(self) -> str:
        """The path of its URL; empty where the URL is invalid."""
        return path_of(self.url)


class Sender(NamedTuple):
    """An authenticated sender."""

    subject: str
    """Such as `system:serviceaccount:shop:till`."""
    is_invited: bool = False
    """Whether the credentials were issued for this target, so that no EventPolicy is consulted."""
    spend: Callable[[Sequence[CloudEvent]], None] | None = None
    """Called with the events of the request, where the credentials have a rate limit."""
