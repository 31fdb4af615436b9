"""Logs of Pods that grow: what is too long is cut to its end, so that no program fills the disk with its words."""

from __future__ import annotations

import asyncio
from pathlib import Path

LIMIT_BYTES, KEPT_BYTES = 10 * 1024 * 1024, 1024 * 1024
EVERY_SECONDS = 10.0
NOTE = b"[the log was longer than 10 MiB; what came before was dropped]\n"


async def keep_short(logs: Path) -> None:
    """Looks at all logs now and then, for ever."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        await asyncio.to_thread(cut_all, logs)


def cut_all(logs: Path, limit: int = LIMIT_BYTES, kept: int = KEPT_BYTES) -> None:
    """Cuts every log that is longer than the limit."""
    for path in logs.glob("*/*/*.log"):
        try:
            if path.stat().st_size > limit:
                _cut(path, kept)
        except FileNotFoundError:
            continue  # its Pod went meanwhile


def _cut(path: Path, kept: int) -> None:
    """In place: the program goes on to append to the same file."""
    with path.open("r+b") as file:
        file.seek(-kept, 2)
        end = file.read()
        file.truncate(0)
    with path.open("ab") as file:
        file.write(NOTE + end.partition(b"\n")[2])
