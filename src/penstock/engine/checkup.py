"""What `penstock doctor` looks at: everything a start needs, without starting anything."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import psutil

from penstock.engine import datadir, jars, java, ports
from penstock.runtime.errors import UserError
from penstock.settings import Settings

OLDEST_PYTHON = (3, 11)
MEMORY_MIB = 1700
HOW_TO_GET_KUBECTL = (
    "Install it (Debian/Ubuntu: snap install kubectl --classic; Fedora: dnf install kubernetes-client; macOS: brew "
    "install kubectl), or use any other Kubernetes client."
)


@dataclass(frozen=True)
class CheckupFinding:
    """One thing that was looked at."""

    verdict: Literal["good", "note", "bad"]
    subject: str
    text: str
    remedy: str = ""


def examine(settings: Settings) -> list[CheckupFinding]:
    """All findings, in the order in which a start would meet them."""
    settings = settings.model_copy(update={"data_dir": settings.data_dir.expanduser().absolute()})
    return [
        *_judged("Python", _python),
        CheckupFinding("good", "packages", f"penstock {version('penstock')}, pyspark {version('pyspark')}"),
        *_judged("Java", _java),
        _jars(settings),
        *_ports(settings),
        *_judged("disk", lambda: _disk(settings)),
        _memory(),
        _kubectl(),
    ]


def _judged(subject: str, look: Callable[[], str]) -> Iterator[CheckupFinding]:
    try:
        yield CheckupFinding("good", subject, look())
    except UserError as problem:
        yield CheckupFinding("bad", subject, problem.what, problem.remedy)


def _python() -> str:
    if sys.version_info < OLDEST_PYTHON:
        raise UserError(
            f"Python {platform.python_version()} is too old.",
            "Install Python 3.11 or newer and install penstock there.",
        )
    return f"{platform.python_version()} ({sys.executable})"


def _java() -> str:
    found = java.find()
    return f"{found.version} ({found.program})"


def _jars(settings: Settings) -> CheckupFinding:
    root = jars.folder(settings)
    if not root.exists():
        return CheckupFinding("note", "jars", "not fetched yet.", "The first start fetches them (53 MB).")
    wrong = jars.damage(root)
    if not wrong:
        return CheckupFinding("good", "jars", f"complete and unchanged in {root}")
    return CheckupFinding("note", "jars", f"{wrong[0]} in {root}.", "The next start fetches them again.")


def _ports(settings: Settings) -> Iterator[CheckupFinding]:
    if datadir.runs(settings.data_dir):
        yield CheckupFinding("good", "ports", f"held by the stack that runs on {settings.data_dir}")
        return
    for port in ports.needed(settings):
        number = int(getattr(settings, port.field))
        try:
            if number:
                ports.check_free(settings.host, number, port)
            yield CheckupFinding("good", f"port {number}" if number else "port", f"free for {port.needed_by}")
        except UserError as problem:
            yield CheckupFinding("bad", f"port {number}", problem.what, problem.remedy)


def _disk(settings: Settings) -> str:
    place: Path = settings.data_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free // 2**20
    wanted = settings.min_free_disk_mib + settings.retention_mib
    if free < settings.min_free_disk_mib:
        raise UserError(
            f"{free} MiB free at {place}; penstock needs at least {settings.min_free_disk_mib} MiB to accept events.",
            "Free some space, or choose another folder with --data-dir.",
        )
    enough = "" if free >= wanted else f"; kept events may take {settings.retention_mib} MiB (retention_mib)"
    return f"{free} MiB free at {place}{enough}"


def _memory() -> CheckupFinding:
    free = psutil.virtual_memory().available // 2**20
    if free < MEMORY_MIB:
        return CheckupFinding("note", "memory", f"{free} MiB available.", f"A stack takes up to {MEMORY_MIB} MiB.")
    return CheckupFinding("good", "memory", f"{free} MiB available")


def _kubectl() -> CheckupFinding:
    found = shutil.which("kubectl")
    if found is None:
        return CheckupFinding(
            "note", "kubectl", "not found; the guides and penstock's own tests use it.", HOW_TO_GET_KUBECTL
        )
    return CheckupFinding("good", "kubectl", found)
