"""Responses: JSON, or YAML if that is accepted, Status objects for errors, warnings as headers.

Long responses are sent in pieces, so that at most one piece waits in memory for a slow client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain

import yaml
from starlette.responses import Response, StreamingResponse

from penstock.apiserver.documents import decode, encode
from penstock.apiserver.errors import ApiError
from penstock.kube.kinds import Obj

PIECE_BYTES = 64 * 1024
MAX_WARNINGS = 20
MAX_WARNING = 256
_JSON, _YAML = "application/json", "application/yaml"


def pieces(parts: Iterable[bytes], size: int = PIECE_BYTES) -> Iterator[bytes]:
    """The bytes of the parts, in pieces of at most `size`: short parts are joined, long ones cut."""
    waiting: list[bytes] = []
    length = 0
    for part in parts:
        if waiting and length + len(part) > size:
            yield b"".join(waiting)
            waiting, length = [], 0
        if len(part) > size:
            yield from (part[start : start + size] for start in range(0, len(part), size))
        else:
            waiting.append(part)
            length += len(part)
    if waiting:
        yield b"".join(waiting)


def json_response(body: bytes, *, status: int = 200, as_yaml: bool = False, warnings: Iterable[str] = ()) -> Response:
    """One document."""
    content = yaml.safe_dump(decode(body), sort_keys=False).encode() if as_yaml else body
    response = Response(content, status, media_type=_YAML if as_yaml else _JSON)
    warn(response, warnings)
    return response


def warn(response: Response, warnings: Iterable[str]) -> None:
    """Adds warning headers, which clients show to their users."""
    for warning in list(warnings)[:MAX_WARNINGS]:
        response.headers.append("Warning", f'299 - "{_header_text(warning)}"')


def object_response(value: Obj, *, status: int = 200) -> Response:
    """A value as JSON."""
    return json_response(encode(value), status=status)


def list_response(parts: Iterable[bytes]) -> Response:
    """A list, sent piece by piece when it is long."""
    in_pieces = pieces(parts)
    first, second = next(in_pieces, b""), next(in_pieces, None)
    if second is None:
        return json_response(first)
    return streamed(_in_turn(chain((first, second), in_pieces)))


def streamed(content: AsyncIterator[bytes]) -> Response:
    """JSON that is generated while it is sent."""
    return StreamingResponse(content, media_type=_JSON)


def error_response(error: ApiError) -> Response:
    """The Status of an error."""
    return Response(encode(error.status()), error.code, error.headers, _JSON)


def _header_text(text: str) -> str:
    """The text escaped for a quoted string in a header; it may contain anything that a client has sent."""
    plain = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text[:MAX_WARNING])
    return plain.replace("\\", "\\\\").replace('"', '\\"')


async def _in_turn(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
