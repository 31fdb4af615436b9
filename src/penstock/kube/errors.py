"""Errors of requests to the Kubernetes API: one type for each failure that callers handle differently.

Status codes and errors of the HTTP client are converted here only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import msgspec
from lightkube.core.exceptions import ConfigError

TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500
MESSAGE_CHARACTERS = 500
"""How much is shown of a response that is not a Status of the API."""


class KubeError(Exception):
    """A request to the API failed. The text is the API's message."""

    code: int | None = None
    """The HTTP status; None without a response."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later: there was no response, or the server failed."""
        return self.code is None or self.code == TOO_MANY_REQUESTS or self.code >= SERVER_ERRORS


class Unavailable(KubeError):
    """There was no valid response: the connection, TLS or the credentials failed."""


class Unauthorized(KubeError):
    """The API does not accept the credentials."""

    code = 401


class Forbidden(KubeError):
    """The user may not do this."""

    code = 403


class NotFound(KubeError):
    """The object or kind does not exist."""

    code = 404


class MethodNotAllowed(KubeError):
    """The kind does not support the verb, such as list."""

    code = 405


class Conflict(KubeError):
    """The object already exists, or has been changed since it was read."""

    code = 409


class Gone(KubeError):
    """The resource version to watch or to list from is too old: list again."""

    code = 410


_TYPES = (Unauthorized, Forbidden, NotFound, MethodNotAllowed, Conflict, Gone)
_BY_CODE: Mapping[int, type[KubeError]] = {one.code: one for one in _TYPES}


def error_of_status(status: Mapping[str, Any]) -> KubeError:
    """The error that a Status of the API describes."""
    code = int(status.get("code") or SERVER_ERRORS)
    return _BY_CODE.get(code, KubeError)(str(status.get("message") or f"HTTP status {code}"), code)


def error_of_response(response: httpx2.Response) -> KubeError:
    """The error of a response whose body has been read."""
    try:
        body = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        body = {"message": response.text[:MESSAGE_CHARACTERS]}
    return error_of_status({**(body if isinstance(body, dict) else {}), "code": response.status_code})


@contextlib.contextmanager
def as_unavailable() -> Iterator[None]:
    """Raises errors of the HTTP client as Unavailable."""
    try:
        yield
    # Credentials are read with each request: their files may be missing, and a credential plugin may fail.
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConfigError, OSError, ValueError) as error:
        raise Unavailable(str(error) or type(error).__name__) from error
