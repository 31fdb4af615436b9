"""Answers: JSON unless YAML was asked for, Status objects for refusals, warnings as headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import yaml
from starlette.responses import Response, StreamingResponse

from penstock.apiserver.documents import Obj, decode, encode
from penstock.apiserver.errors import ApiError

MAX_WARNINGS = 20
MAX_WARNING = 256
_JSON, _YAML = "application/json", "application/yaml"


def json_response(body: bytes, *, status: int = 200, as_yaml: bool = False, warnings: Iterable[str] = ()) -> Response:
    """One document."""
    content = yaml.safe_dump(decode(body), sort_keys=False).encode() if as_yaml else body
    response = Response(content, status, media_type=_YAML if as_yaml else _JSON)
    warn(response, warnings)
    return response


def warn(response: Response, warnings: Iterable[str]) -> None:
    """Adds warnings that clients show to their user."""
    for warning in list(warnings)[:MAX_WARNINGS]:
        response.headers.append("Warning", f'299 - "{_header_text(warning)}"')


def object_response(value: Obj, *, status: int = 200) -> Response:
    """A value the server made."""
    return json_response(encode(value), status=status)


def list_response(parts: list[bytes], *, as_yaml: bool = False) -> Response:
    """A list, sent piece by piece when it is long."""
    if as_yaml or len(parts) <= 3:
        return json_response(b"".join(parts), as_yaml=as_yaml)
    return StreamingResponse(_in_turn(parts), media_type=_JSON)


def refusal(error: ApiError) -> Response:
    """The Status of a refusal."""
    return Response(encode(error.status()), error.code, error.headers, _JSON)


def _header_text(text: str) -> str:
    """Text that may stand between quotes in a header, whatever a client put into it."""
    plain = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text[:MAX_WARNING])
    return plain.replace("\\", "\\\\").replace('"', '\\"')


async def _in_turn(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
