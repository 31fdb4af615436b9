"""Events and attempts as lines of text."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.contract.attempts import AttemptRecord
from penstock.events import json_format, media_type
from penstock.events.event import CloudEvent
from penstock.runtime.times import rfc3339_milli

DATA_SHOWN = 120
RESULTS = {
    "delivered": "green",
    "replied": "green",
    "retry": "yellow",
    "deadletter": "red",
    "dropped": "red",
    "cancelled": "dim",
}


def event_line(event: CloudEvent, at: float, where: str = "") -> list[tuple[str, str]]:
    """An event as pieces of text, each with its style."""
    pieces = [(clock(at), "dim"), (event.type, "cyan"), (event.id, ""), (f"from {event.source}", "dim")]
    if where:
        pieces.append((where, "dim"))
    if event.data:
        pieces.append((data_text(event.data, event.attributes.get("datacontenttype", "")), ""))
    return pieces


def attempt_line(attempt: AttemptRecord, now: float | None = None) -> list[tuple[str, str]]:
    """An attempt as pieces of text, each with its style."""
    route = f"{attempt.kind.lower()}/{attempt.name}" if attempt.name else attempt.route
    pieces = [
        (clock(attempt.at), "dim"),
        (route, "cyan"),
        (attempt.result, RESULTS.get(attempt.result, "")),
        (f"{attempt.status or 'no response'} in {attempt.latency * 1000:.0f} ms", ""),
        (attempt.destination, "dim"),
    ]
    if attempt.stage != "subscriber":
        pieces.append((f"({attempt.stage})", "dim"))
    if attempt.attempt > 1:
        pieces.append((f"attempt {attempt.attempt}", "yellow"))
    if attempt.reason and attempt.status is None:
        pieces.append((attempt.reason, "red"))
    if attempt.due is not None and now is not None:
        pieces.append((f"next try in {max(0.0, attempt.due - now):.1f} s", "yellow"))
    return pieces


def event_object(event: CloudEvent) -> dict[str, Any]:
    """The event in CloudEvents JSON, as a plain object."""
    shown: dict[str, Any] = msgspec.json.decode(json_format.encode(event))
    return shown


def clock(at: float) -> str:
    """The time of day, UTC."""
    return rfc3339_milli(at)[11:-1]


def data_text(data: bytes, content_type: str) -> str:
    """The beginning of the data, in one line."""
    media = media_type.parse(content_type)
    binary = media is not None and media.essence == "application/octet-stream"
    try:
        text = "" if binary else data.decode()
    except UnicodeDecodeError:
        binary = True
    if binary:
        return f"{len(data)} bytes of {content_type or 'data'}"
    line = " ".join(text.split())
    return line if len(line) <= DATA_SHOWN else f"{line[:DATA_SHOWN]}… ({len(data)} bytes)"
