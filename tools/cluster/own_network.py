"""A network of a run's own: a namespace in which nothing is reached but this machine, and into which nobody reaches.

An API server refuses Endpoints on the loopback, so a run needs an address beside it; and what is hit and loaded should
be nobody else's. `python -m tools.cluster.own_network COMMAND …` runs any command so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

ADDRESS = "192.0.2.1"
"""Of a range that is kept for examples: no machine has it."""
INSIDE = "CLUSTER_NETWORK"
OWN = "own"
SCRIPT = f'ip link set lo up && ip addr add {ADDRESS}/24 dev lo && exec "$@"'
NOT_ALLOWED = "this machine allows no network namespace (or lacks unshare and ip): its own address is used instead"


def inside() -> bool:
    """Whether this process is in such a network."""
    return os.environ.get(INSIDE) == OWN


def enter(command: Sequence[str]) -> None:
    """Runs the command there in place of this process; returns where that is not allowed here."""
    if not _allowed():
        return
    os.environ[INSIDE] = OWN
    sys.stdout.flush()
    sys.stderr.flush()
    whole = _command(command)
    os.execvp(whole[0], whole)


def _allowed() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(_command(["true"]), capture_output=True, check=False).returncode == 0


def _command(command: Sequence[str]) -> list[str]:
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    return ["unshare", *flags, "sh", "-c", SCRIPT, "sh", *command]


def main() -> int:
    """Runs what was asked for."""
    enter(sys.argv[1:])
    print(NOT_ALLOWED, file=sys.stderr)
    return subprocess.run(sys.argv[1:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
