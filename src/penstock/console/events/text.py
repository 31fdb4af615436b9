"""Moments and data in one line. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.events import media_type

DATA_SHOWN = 120
BINARY = ("application/octet-stream", "application/x-protobuf", "application/protobuf")


def clock(moment: datetime) -> str:
    """A moment with milliseconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def size(count: int) -> str:
    """So many bytes."""
    if count < 2048:
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / 1024:.1f} KiB" if count < 2 * 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"


def beginning(data: bytes | None, content_type: str) -> str:
    """The beginning of the data, in one line."""
    if data is None:
        return ""
    media = media_type.parse(content_type)
    part = data[: DATA_SHOWN * 4]
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        cut = len(data) > len(part) and error.start > len(part) - 4
        text = part[: error.start].decode() if cut else ""
        if not cut:
            return f"{size(len(data))} of {content_type or 'data'}"
    if media is not None and media.essence in BINARY:
        return f"{size(len(data))} of {content_type}"
    line = " ".join(text.split())
    return line if len(line) <= DATA_SHOWN and len(part) == len(data) else f"{line[:DATA_SHOWN]}… ({size(len(data))})"
