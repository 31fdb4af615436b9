"""Structured logs: one JSON object per line, the same shape for penstock's own lines and for its libraries'.

A line carries `timestamp`, `level`, `component`, `event` (what happened) and whatever names the objects concerned.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from logging import LogRecord
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

FILE_BYTES = 8 * 1024 * 1024
OLD_FILES = 3


class SharedLogFile(WatchedFileHandler):
    """A rotated log file that several processes append to; `<name>.1` is the newest of the older files.

    The process that finds the file full renames it under a shared lock; the others notice before their next line that
    their open file no longer has that name, and open the new one. Lines are appended whole, so none is torn.
    """

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


def configure_logging(
    component: str, level: str = "info", file: Path | None = None, stream: TextIO | None = None
) -> None:
    """Sends this process's log to a file (shared and rotated), or a stream; standard error if neither is given."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = SharedLogFile(file)
    else:
        handler = logging.StreamHandler(stream or sys.stderr)
    shape: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Named(component),
        structlog.processors.format_exc_info,
    ]
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shape,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_to_json),
            ],
        )
    )
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
        former.close()
    root.addHandler(handler)
    root.setLevel(threshold)
    # Libraries speak of their own inner life below this; penstock's lines are about events and objects.
    for library in ("asyncio", "uvicorn", "httpx2", "httpcore2", "lightkube", "py4j", "opentelemetry"):
        logging.getLogger(library).setLevel(max(threshold, logging.WARNING))
    structlog.configure(
        processors=[*shape, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def describe(error: object) -> str:
    """An error for a log line: its type and what it says. The text alone is often empty, or means nothing by itself."""
    kind, text = type(error).__name__, str(error)
    return text if text.startswith(kind) else f"{kind}: {text}" if text else kind


class _Named:
    """Puts the component's name into each line."""

    def __init__(self, component: str) -> None:
        self._component = component

    def __call__(self, logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
        line.setdefault("component", self._component)
        return line


def _to_json(line: EventDict, **_: object) -> str:
    return msgspec.json.encode(line, enc_hook=str).decode()
