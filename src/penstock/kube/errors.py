"""What a request of the Kubernetes API fails with: one type for each failure that callers treat differently.

Status codes and the errors of the HTTP client are read here and nowhere else.
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
"""Of an answer that is not a Status of the API, so much is shown."""


class KubeError(Exception):
    """A request of the API failed. Its text is what the API says about it."""

    code: int | None = None
    """The HTTP status; None where there was no answer."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may be answered later: there was no answer, or the server could not give one."""
        return self.code is None or self.code == TOO_MANY_REQUESTS or self.code >= SERVER_ERRORS


class Unavailable(KubeError):
    """There was no answer, or one that cannot be read: the connection, TLS or the credentials failed."""


class Unauthorized(KubeError):
    """The API does not know the credentials."""

    code = 401


class Forbidden(KubeError):
    """The user may not do this."""

    code = 403


class NotFound(KubeError):
    """There is no such object, or no such kind."""

    code = 404


class MethodNotAllowed(KubeError):
    """The server does not do this with objects of the kind, such as to list them."""

    code = 405


class Conflict(KubeError):
    """There is an object of that name already, or the object has been changed since it was read."""

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
    """The error that an answer stands for, whose body has been read."""
    try:
        body = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        body = {"message": response.text[:MESSAGE_CHARACTERS]}
    return error_of_status({**(body if isinstance(body, dict) else {}), "code": response.status_code})


@contextlib.contextmanager
def unavailable() -> Iterator[None]:
    """Around what the HTTP client does: whatever keeps it from an answer is raised as Unavailable."""
    try:
        yield
    # Credentials are read while a request is made: their files may be missing, and a program that gives them may fail.
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConfigError, OSError, ValueError) as error:
        raise Unavailable(str(error) or type(error).__name__) from error
