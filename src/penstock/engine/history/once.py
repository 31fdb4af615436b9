"""The process that writes what has gathered and ends: `python -m penstock.engine.history.once --settings <file>`.

It may be killed at any moment. It ends with the one that started it, and gives way to everything else unless it has to
hurry.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import structlog

from penstock.engine.datadir import load_settings
from penstock.engine.history.failure import told
from penstock.engine.history.priority import SLOW_DOWN, give_way
from penstock.engine.history.request import is_asked
from penstock.engine.history.work import HistoryWriter, fitting
from penstock.engine.processes import parent_death
from penstock.history.writer.batches import Written
from penstock.history.writer.pace import LEISURELY_SHARE, WriterPace
from penstock.lifecycle import Lifecycle
from penstock.observability.logs import configure_logging

GARBAGE_OBJECTS = 100_000
"""More than a thousand records become. They hold no cycles: looking for some took a sixth of the writer's time."""

log = structlog.get_logger()


def main() -> None:
    """Writes once."""
    parser = argparse.ArgumentParser(prog="penstock.engine.history.once")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--urgency", choices=("leisure", "write", "hurry"), default="hurry")
    parser.add_argument("--notify-fd", type=int, default=None)
    parser.add_argument("--life-fd", type=int, default=None)
    arguments = parser.parse_args()
    parent_death.tie(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if arguments.urgency != "hurry":
        give_way()
    settings = load_settings(arguments.settings)
    configure_logging("history", "debug" if settings.verbose else "info", stream=sys.stdout)
    if arguments.life_fd is not None:
        threading.Thread(target=_end_with, args=(arguments.life_fd,), daemon=True).start()
    pace = WriterPace(LEISURELY_SHARE if arguments.urgency == "leisure" else 1.0, partial(is_asked, settings))
    signal.signal(SLOW_DOWN, lambda *_: _slow_down(pace))
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    lifecycle = Lifecycle(arguments.notify_fd)
    lifecycle.ready()

    def heard(written: Written) -> None:
        lifecycle.status(table=written.table, records=written.records, rest=written.rest, lost=written.lost)

    try:
        writer = HistoryWriter(settings, fitting(settings, pace), heard)
        if writer.begun_anew:
            lifecycle.status(begun_anew=", ".join(writer.begun_anew))
        _write(writer)
        code = 0
    except Exception as error:  # the process ends; its supervisor is shown why
        log.exception("the history could not be written")
        lifecycle.fail(told(error, settings))
        code = 1
    sys.stdout.flush()
    # Neither the JVM nor threads of libraries hold up the end.
    os._exit(code)


def _write(writer: HistoryWriter) -> None:
    try:
        writer.write()
    except Exception:
        # Raised again below. Where there is no room to write, this makes some; what is told is why nothing was written.
        with contextlib.suppress(Exception):
            writer.look_after()
        raise
    writer.look_after()


def _slow_down(pace: WriterPace) -> None:
    give_way()
    pace.slow_down(LEISURELY_SHARE)


def _end_with(life_fd: int) -> None:
    while os.read(life_fd, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
