"""Brokers, Channels, Triggers and Subscriptions that are gone, whose numbers must go too.

The files that processes share keep every label set for good. So a process that forgets an object notes it in a file
beside them, and the metrics endpoint leaves the object out. A recreated object is noted as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

SUFFIX = ".forgotten"
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

ObjectKey = tuple[str, str, str]
"""Kind, namespace, name."""


class Note(msgspec.Struct, frozen=True, array_like=True):
    """One line: the object is gone, or back."""

    object: ObjectKey
    gone: bool
    at: float
    """Unix time in seconds; the newest note of any process about an object counts."""


class Notes:
    """What this process has noted."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._gone: set[ObjectKey] = set()

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._gone.add(key)
        self._write(Note(key, True, self._clock()))

    def remember(self, key: ObjectKey) -> None:
        """The object is in use; noted only if it was gone before."""
        if key in self._gone:
            self._gone.discard(key)
            self._write(Note(key, False, self._clock()))

    def _write(self, note: Note) -> None:
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder:
            with (Path(folder) / f"{os.getpid()}{SUFFIX}").open("ab") as file:
                file.write(msgspec.json.encode(note) + b"\n")


_DECODER = msgspec.json.Decoder(Note)


def gone_objects(folder: Path) -> set[ObjectKey]:
    """The objects that no process uses any more."""
    newest: dict[ObjectKey, Note] = {}
    for file in folder.glob(f"*{SUFFIX}"):
        for line in file.read_bytes().splitlines():
            try:
                note = _DECODER.decode(line)
            except msgspec.MsgspecError:
                continue  # the last line of a process that was killed while it wrote
            if note.object not in newest or newest[note.object].at <= note.at:
                newest[note.object] = note
    return {key for key, note in newest.items() if note.gone}
