"""The responses of the ingress. Each is a value; the messages say what to do, because people read them.

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
        """The bytes to send. `date` is a complete header line; a response to HEAD has no body."""
        ending = b"connection: close\r\n\r\n" if closing else b"\r\n"
        return self._status_line + date + self._fields + ending + (b"" if bodiless else self.body)


def text_response(status: int, text: str = "", *headers: tuple[bytes, bytes], closes: bool = False) -> Response:
    """A response with a line of text."""
    body = text.encode() + b"\n" if text else b""
    kind = ((b"content-type", b"text/plain; charset=utf-8"),) if body else ()
    return Response(status, (*headers, *kind, (b"content-length", str(len(body)).encode())), body, closes)


ACCEPTED = text_response(202)
HEALTHY = text_response(200, "ok")
OPTIONS = text_response(200, "", _ALLOW, (b"webhook-allowed-origin", b"*"), (b"webhook-allowed-rate", b"*"))
METHOD_NOT_ALLOWED = text_response(405, "events are sent with POST", _ALLOW)
NOT_FOUND = text_response(404, "no Broker or Channel has this address")
ONLY_HTTPS = text_response(404, "events for this address are taken over HTTPS only (transport-encryption is strict)")
NO_HTTPS = text_response(404, "events for this address are taken over HTTP only (transport-encryption is disabled)")
"""404, as upstream: a sender may still use the former address, and tries again."""
NO_REQUEST = text_response(400, "this is not an HTTP request", closes=True)
NO_HOST = text_response(400, "an HTTP/1.1 request names its Host", closes=True)
MANY_HOSTS = text_response(400, "a request names one Host", closes=True)
CODED = text_response(501, "the only Transfer-Encoding that is supported is chunked", closes=True)
HEAD_TIMEOUT = text_response(408, "the headers did not arrive in time", closes=True)
HEAD_TOO_LARGE = text_response(431, "the headers are too large", closes=True)
BODY_TIMEOUT = text_response(408, "the body did not arrive in time", closes=True)
BODY_CUT_OFF = text_response(400, "the body is incomplete", closes=True)
ENCODED = text_response(
    415, "the body has a Content-Encoding; events are taken without one", (b"accept-encoding", b"identity")
)
TOO_MANY = text_response(429, "too many events are waiting to be stored; send again later", _RETRY_AFTER)
NOT_READY = text_response(503, "the ingress is not ready: it has not read its targets yet", _RETRY_AFTER)
NOT_READY_DISK = text_response(503, "the ingress is not ready: the disk is nearly full", _RETRY_AFTER)
NOT_READY_KAFKA = text_response(503, "the ingress is not ready: Kafka takes no events", _RETRY_AFTER)
DRAINING = text_response(503, "the ingress is not ready: it is shutting down", _RETRY_AFTER)
NOT_STORED = text_response(503, "the event could not be stored in time; send it again", _RETRY_AFTER)
NO_CONNECTION = text_response(503, "the ingress has as many connections as it may; try again later", _RETRY_AFTER)
NO_MEMORY = text_response(503, "too many events are arriving at once; send it again later", _RETRY_AFTER)
DISK_FULL = text_response(507, "the disk is nearly full; no event is accepted until there is space", _RETRY_AFTER)
FAILED = text_response(500, "the ingress failed; its log says why", closes=True)


def malformed(reason: str) -> Response:
    """The request is not an event."""
    return text_response(400, reason)


def unsupported(reason: str) -> Response:
    """The event is in an unsupported format."""
    return text_response(415, reason)


def unauthorized(reason: str, *, invalid: bool = True) -> Response:
    """The sender is not authenticated. `invalid`: there were credentials, and they are invalid."""
    challenge = b'Bearer realm="penstock", error="invalid_token"' if invalid else b'Bearer realm="penstock"'
    return text_response(401, reason, (b"www-authenticate", challenge))


def forbidden(reason: str) -> Response:
    """The sender is authenticated and not authorized."""
    return text_response(403, reason)


def authentication_unavailable(reason: str) -> Response:
    """The credentials cannot be checked for now."""
    return text_response(503, reason, _RETRY_AFTER)


def too_fast(reason: str) -> Response:
    """The sender has used up its rate limit."""
    return text_response(429, reason, _RETRY_AFTER)


def attributes_too_large(reason: str) -> Response:
    """The attributes in a body exceed the limit; those in headers are refused with 431."""
    return text_response(413, reason)


def too_large(limit: int) -> Response:
    """The body exceeds the limit of one event."""
    return text_response(413, f"the event is larger than {limit} bytes")
