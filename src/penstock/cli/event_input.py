"""An event from the flags of a command, from a file, or from standard input."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec

from penstock.cli.options import DEFAULT_SOURCE, DEFAULT_TYPE
from penstock.events import json_format
from penstock.events.attributes import check_event, check_name, check_text
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.runtime.errors import UserError
from penstock.runtime.times import rfc3339_nano

STDIN = "-"


def event_of(
    data: str | None = None,
    *,
    file: Path | None = None,
    event: Path | None = None,
    content_type: str | None = None,
    attributes: Iterable[str] | None = None,
    **named: str | None,
) -> CloudEvent:
    """The event of the flags, which override attributes of `event`. Raises UserError for an invalid event."""
    if sum(given is not None for given in (data, file, event)) > 1:
        raise UserError("Only one of DATA, --file and --event can be given.", exit_code=2)
    try:
        base = json_format.decode(_read(event)) if event is not None else _fresh(data, file, content_type)
        changes = {name: value for name, value in named.items() if value is not None} | _assigned(attributes or [])
        merged = CloudEvent({**base.attributes, **changes}, base.data)
        for name, value in merged.attributes.items():
            check_name(name)
            check_text(name, value)
        check_event(merged.attributes)
    except MalformedEvent as malformed:
        raise UserError(f"Invalid event: {malformed}.", exit_code=2) from None
    return merged


def numbered(event: CloudEvent, number: int) -> CloudEvent:
    """The event with a numbered id, as one of several."""
    return event.with_attributes(id=f"{event.id}-{number}") if number else event


def _fresh(data: str | None, file: Path | None, content_type: str | None) -> CloudEvent:
    content = _read(file) if file is not None else sys.stdin.buffer.read() if data == STDIN else data
    body = content.encode() if isinstance(content, str) else content
    attributes = {
        "specversion": "1.0",
        "id": uuid.uuid4().hex,
        "source": DEFAULT_SOURCE,
        "type": DEFAULT_TYPE,
        "time": rfc3339_nano(),
    }
    if body is not None:
        attributes["datacontenttype"] = content_type or _guessed(body)
    return CloudEvent(attributes, body)


def _guessed(body: bytes) -> str:
    try:
        msgspec.json.decode(body)
        return "application/json"
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        body.decode()
        return "text/plain"
    except UnicodeDecodeError:
        return "application/octet-stream"


def _read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", exit_code=2) from None


def _assigned(texts: Iterable[str]) -> dict[str, str]:
    assigned = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise UserError(f"Invalid --attribute {text}: write NAME=VALUE.", exit_code=2)
        assigned[name.strip().lower()] = value
    return assigned
