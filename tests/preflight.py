"""What the tests need that pip does not install; says in the first seconds what is missing and how to get it."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator

import psutil

from penstock.engine import java
from penstock.runtime.errors import UserError

DISK_MIB = 4000
MEMORY_MIB = 1500
"""For each process that runs tests: a Kafka, a Spark or a whole stack belongs to it."""
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def kubectl_remedy() -> str:
    """The command that brings kubectl to this machine."""
    machine = MACHINES.get(platform.machine(), platform.machine())
    release = "https://dl.k8s.io/release"
    url = f"{release}/$(curl -fsSL {release}/stable.txt)/bin/{platform.system().lower()}/{machine}/kubectl"
    return f'curl -fsSLo kubectl "{url}" && sudo install kubectl /usr/local/bin/'


def missing(processes: int) -> Iterator[UserError]:
    """Everything that is missing."""
    if shutil.which("kubectl") is None:
        yield UserError("kubectl (1.31 or newer) is not on the PATH.", kubectl_remedy())
    if shutil.which("curl") is None:
        yield UserError("curl is not on the PATH.", "Install it (Debian/Ubuntu: apt install curl).")
    try:
        java.find()
    except UserError as problem:
        yield problem
    free = shutil.disk_usage(tempfile.gettempdir()).free // 2**20
    if free < DISK_MIB:
        yield UserError(
            f"{free} MiB are free in {tempfile.gettempdir()}; the tests take up to {DISK_MIB} MiB.",
            "Make room, or choose another folder with TMPDIR.",
        )
    memory = psutil.virtual_memory().available // 2**20
    if memory < processes * MEMORY_MIB:
        yield UserError(
            f"{memory} MiB of memory are available; {processes} processes of tests take {processes * MEMORY_MIB} MiB.",
            f"Run fewer side by side: make test PROCESSES={max(1, memory // MEMORY_MIB)}",
        )


def main(processes: int) -> int:
    """Prints what is missing; 1 if something is."""
    found = list(missing(processes))
    for problem in found:
        print(f"The tests need more than this machine has: {problem.what}\n  {problem.remedy}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
