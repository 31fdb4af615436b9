"""What the ingress answers. Each response is a value; the messages say what to do, because people read them.

Nearly all of them are constants, so a response has its bytes ready: writing one adds the date and nothing else.
"""

from __future__ import annotations

from http import HTTPStatus

RETRY_AFTER_SECONDS = 1

_ALLOW = (b"allow", b"POST, OPTIONS")
_RETRY_AFTER = (b"retry-after", str(RETRY_AFTER_SECONDS).encode())


class Response:
    """A complete response."""

    __slots__ = ("_fields", "_status_line", "body", "closes", "status")

    def __init__(self, status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes, closes: bool) -> None:
        self.status, self.body, self.closes = status, body, closes
        """`closes`: whether the connection ends with it, whatever the client wishes."""
        self._status_line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self._fields = b"".join(name + b": " + value + b"\r\n" for name, value in headers)

    def rendered(self, date: bytes, closing: bool = False, bodiless: bool = False) -> bytes:
        """What goes over the wire. `date` is a complete header line; an answer to HEAD has no body."""
        ending = b"connection: close\r\n\r\n" if closing else b"\r\n"
        return self._status_line + date + self._fields + ending + (b"" if bodiless else self.body)


def answer(status: int, text: str = "", *headers: tuple[bytes, bytes], closes: bool = False) -> Response:
    """An answer with a line of text."""
    body = text.encode() + b"\n" if text else b""
    kind = ((b"content-type", b"text/plain; charset=utf-8"),) if body else ()
    return Response(status, (*headers, *kind, (b"content-length", str(len(body)).encode())), body, closes)


ACCEPTED = answer(202)
HEALTHY = answer(200, "ok")
OPTIONS = answer(200, "", _ALLOW, (b"webhook-allowed-origin", b"*"), (b"webhook-allowed-rate", b"*"))
METHOD_NOT_ALLOWED = answer(405, "events are sent with POST", _ALLOW)
NOT_FOUND = answer(404, "no Broker or Channel has this address")
ONLY_HTTPS = answer(404, "events for this address are taken over HTTPS only (transport-encryption is strict)")
NO_HTTPS = answer(404, "events for this address are taken over HTTP only (transport-encryption is disabled)")
"""404, as upstream: a sender may have the address of before, and tries again."""
NO_REQUEST = answer(400, "this is no HTTP request", closes=True)
NO_HOST = answer(400, "an HTTP/1.1 request names its Host", closes=True)
MANY_HOSTS = answer(400, "a request names one Host", closes=True)
CODED = answer(501, "a body is sent as it is or chunked; other codings of Transfer-Encoding are not known", closes=True)
HEAD_TIMEOUT = answer(408, "the headers did not arrive in time", closes=True)
HEAD_TOO_LARGE = answer(431, "the headers are too large", closes=True)
BODY_TIMEOUT = answer(408, "the body did not arrive in time", closes=True)
BODY_CUT_OFF = answer(400, "the body is incomplete", closes=True)
ENCODED = answer(
    415, "the body has a Content-Encoding; events are taken without one", (b"accept-encoding", b"identity")
)
TOO_MANY = answer(429, "too many events are waiting to be stored; send again later", _RETRY_AFTER)
NOT_READY = answer(503, "the ingress is not ready: it has not read yet which targets there are", _RETRY_AFTER)
NOT_READY_DISK = answer(503, "the ingress is not ready: the disk is nearly full", _RETRY_AFTER)
NOT_READY_KAFKA = answer(503, "the ingress is not ready: Kafka takes no events", _RETRY_AFTER)
DRAINING = answer(503, "the ingress is not ready: it ends", _RETRY_AFTER)
NOT_STORED = answer(503, "the event could not be stored in time; send it again", _RETRY_AFTER)
NO_CONNECTION = answer(503, "the ingress has as many connections as it may; try again later", _RETRY_AFTER)
NO_MEMORY = answer(503, "too many events are arriving at once; send it again later", _RETRY_AFTER)
DISK_FULL = answer(507, "the disk is nearly full; no event is accepted until there is room", _RETRY_AFTER)
FAILED = answer(500, "the ingress failed; its log says why", closes=True)


def malformed(reason: str) -> Response:
    """No event."""
    return answer(400, reason)


def unsupported(reason: str) -> Response:
    """An event in a format that is not understood."""
    return answer(415, reason)


def unauthorized(reason: str, *, invalid: bool = True) -> Response:
    """Nobody knows who sends. `invalid`: there were credentials, and they do not hold."""
    challenge = b'Bearer realm="penstock", error="invalid_token"' if invalid else b'Bearer realm="penstock"'
    return answer(401, reason, (b"www-authenticate", challenge))


def forbidden(reason: str) -> Response:
    """It is known who sends, and they may not."""
    return answer(403, reason)


def not_yet_known(reason: str) -> Response:
    """Who sends cannot be said right now."""
    return answer(503, reason, _RETRY_AFTER)


def too_fast(reason: str) -> Response:
    """The sender has to wait."""
    return answer(429, reason, _RETRY_AFTER)


def attributes_too_large(reason: str) -> Response:
    """More attributes in a body than one event may have; those in headers are refused with 431."""
    return answer(413, reason)


def too_large(limit: int) -> Response:
    """More than one event may have."""
    return answer(413, f"the event is larger than {limit} bytes")
