"""A log file that several processes write to, and that does not grow without end.

The process that finds it full renames it, under a lock that they share; the others notice before their next line that
the file they have open is no longer the one of that name, and open the new one. Lines are appended whole: none is torn.
"""

from __future__ import annotations

import fcntl
import os
from logging import LogRecord
from logging.handlers import WatchedFileHandler
from pathlib import Path

FILE_BYTES = 8 * 1024 * 1024
OLD_FILES = 3


class SharedLogFile(WatchedFileHandler):
    """Appends to a file, and keeps a few older ones beside it: `<name>.1` is the newest of them."""

    def __init__(self, path: Path, limit_bytes: int = FILE_BYTES, old_files: int = OLD_FILES) -> None:
        super().__init__(path, encoding="utf-8")
        self._path, self._limit, self._old_files = path, limit_bytes, old_files

    def emit(self, record: LogRecord) -> None:
        """Writes a line."""
        super().emit(record)
        if self.stream is not None and os.fstat(self.stream.fileno()).st_size > self._limit:
            self._rotate()

    def _rotate(self) -> None:
        with self._path.with_name(f"{self._path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._path.exists() or self._path.stat().st_size <= self._limit:
                return  # another process was faster
            for number in range(self._old_files - 1, 0, -1):
                if self._numbered(number).exists():
                    self._numbered(number).replace(self._numbered(number + 1))
            self._path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
