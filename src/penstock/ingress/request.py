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
    """One request. The application answers it once, now or later."""

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
        """The answer where the head alone is bad enough; to be given once the target is known."""
        self.framing: Response | None = None
        """The answer where the head is not valid HTTP, whatever it is for."""
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
        """Who it comes from, where the target asks for that."""
        self.parent: str | None = None
        """The `traceparent` that it came with."""
        self.span = ""
        """The one under which its events go on."""
        self.body: bytes | bytearray = b""
        self.complete = self.answered = False
        self.keep_alive = True
        self._reply = reply

    def _wrong_framing(self, version: str) -> Response | None:
        host = self.headers.get("host")
        if host is None:
            return responses.NO_HOST if version > "1.0" else None
        if "," in host:  # as two of them are folded, and in no name of a host
            return responses.MANY_HOSTS
        coding = self.headers.get("transfer-encoding", "")
        # One that does not end with chunked has no end, and is refused by the parser.
        return responses.CODED if "," in coding and coding.lower().endswith("chunked") else None

    def add(self, chunk: bytes) -> None:
        """More of the body. Nearly always it comes in one piece, which is not copied."""
        if not self.body:
            self.body = chunk
        elif isinstance(self.body, bytes):
            self.body = bytearray(self.body) + chunk
        else:
            self.body += chunk

    def reply(self, answer: Response) -> None:
        """Answers it."""
        self._reply(self, answer)

    @property
    def declared_length(self) -> int:
        """What the sender says about the size of the body."""
        return int(self.headers.get("content-length", 0))  # the parser has let digits through only

    @property
    def path(self) -> str:
        """Where it goes; empty where the address is none."""
        return path_of(self.url)


# Who sends a request.


class Sender(NamedTuple):
    """Somebody who has shown who they are."""

    subject: str
    """Such as `system:serviceaccount:shop:till`."""
    is_invited: bool = False
    """Whether the credentials were made for this very target, so that no EventPolicy is asked about them."""
    spend: Callable[[Sequence[CloudEvent]], None] | None = None
    """Told what was sent, where the credentials allow so much only."""
