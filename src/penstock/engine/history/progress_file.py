"""Files in the data folder by which the history writer and its scheduler communicate.

The progress file says how far the tables are, so that the scheduler need not read a table. The flush request is an
empty file that asks for everything to be written now; any process that may write to the data folder can create it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from penstock.history.schema.columns import TableName
from penstock.settings import Settings

PROGRESS_FILE = Path("run", "history.json")
"""Only used to decide when to write; what has been written is read from the tables."""


@dataclass
class HistoryProgress:
    """The content of the progress file."""

    positions: dict[TableName, dict[int, int]] = field(default_factory=dict)
    written: float = 0.0
    """Unix time of the last run."""
    vacuumed: float = 0.0

    @classmethod
    def read(cls, data_dir: Path) -> HistoryProgress:
        """Reads the file; empty if it is missing or invalid."""
        try:
            stored = json.loads((data_dir / PROGRESS_FILE).read_bytes())
            positions = {name: {int(p): int(at) for p, at in of.items()} for name, of in stored["positions"].items()}
            return cls(positions, float(stored["written"]), float(stored["vacuumed"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def write(self, data_dir: Path) -> None:
        """Writes the file."""
        path = data_dir / PROGRESS_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.new")
        draft.write_text(json.dumps(self.__dict__))
        draft.replace(path)


FLUSH_REQUEST = Path("run", "write-history")


def flush_requested(settings: Settings) -> bool:
    """Whether a flush is requested."""
    return (settings.data_dir / FLUSH_REQUEST).exists()


def request_flush(settings: Settings) -> None:
    """Requests a flush: a writer is started, or a running one is no longer throttled."""
    (settings.data_dir / FLUSH_REQUEST).touch()


def clear_flush_request(settings: Settings) -> None:
    """Removes the request, before the writer starts."""
    (settings.data_dir / FLUSH_REQUEST).unlink(missing_ok=True)
