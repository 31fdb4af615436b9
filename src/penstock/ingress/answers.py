"""What the ingress answers. Each answer is a value; the messages say what to do, because people read them."""

from __future__ import annotations

from dataclasses import dataclass

RETRY_AFTER_SECONDS = 1

_ALLOW = (b"allow", b"POST, OPTIONS")
_RETRY_AFTER = (b"retry-after", str(RETRY_AFTER_SECONDS).encode())
_CLOSE = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""

    def closing(self) -> Answer:
        """The same, after which the connection ends."""
        return Answer(self.status, (*self.headers, _CLOSE), self.body)


def answer(status: int, text: str = "", *headers: tuple[bytes, bytes]) -> Answer:
    """An answer with a line of text."""
    body = text.encode() + b"\n" if text else b""
    kind = ((b"content-type", b"text/plain; charset=utf-8"),) if body else ()
    return Answer(status, (*headers, *kind, (b"content-length", str(len(body)).encode())), body)


ACCEPTED = answer(202)
HEALTHY = answer(200, "ok")
OPTIONS = answer(200, "", _ALLOW, (b"webhook-allowed-origin", b"*"), (b"webhook-allowed-rate", b"*"))
METHOD_NOT_ALLOWED = answer(405, "events are sent with POST", _ALLOW)
NOT_FOUND = answer(404, "no Broker or Channel has this address")
BODY_TIMEOUT = answer(408, "the body did not arrive in time", _CLOSE)
BODY_CUT_OFF = answer(400, "the body is incomplete", _CLOSE)
HEAD_TOO_LARGE = answer(431, "the headers are too large")
TOO_MANY = answer(429, "too many events are waiting to be stored; send again later", _RETRY_AFTER)
NOT_READY = answer(503, "the ingress is not ready", _RETRY_AFTER)
NOT_STORED = answer(503, "the event could not be stored in time; send it again", _RETRY_AFTER)
DISK_FULL = answer(507, "the disk is nearly full; no event is accepted until there is room", _RETRY_AFTER)


def malformed(reason: str) -> Answer:
    """No event."""
    return answer(400, reason)


def unsupported(reason: str) -> Answer:
    """An event in a format that is not understood."""
    return answer(415, reason)


def too_large(limit: int) -> Answer:
    """More than one event may have."""
    return answer(413, f"the event is larger than {limit} bytes")
