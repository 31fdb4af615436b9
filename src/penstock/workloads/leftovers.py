"""Programs that an earlier node left behind when it was killed: found by the mark in their environment, and ended."""

from __future__ import annotations

from pathlib import Path

import psutil
import structlog

from penstock.workloads.processes.process import MARK

log = structlog.get_logger()


def end_leftovers(data_dir: Path) -> None:
    """Ends what runs with the mark of this data folder. Called before any program of this node is started."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(data_dir):
                log.warning("a program of an earlier run is ended", pid=process.pid, name=process.name())
                process.kill()
        except psutil.Error:
            continue  # another user's, or gone
