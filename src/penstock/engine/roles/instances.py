"""What a process is called among those of its role: in claims, and in what it reports to the control plane."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from pathlib import Path

VARIABLE = "PENSTOCK_INSTANCE"
"""Who sets it promises that there is never more than one process of that name: one that was killed and started again
takes its own place, and need not wait for anybody."""


def name_supervised(name: str, data_dir: Path) -> None:
    """Gives a child of `penstock dev` a name that outlives it: the supervisor and its lock see to it that it is one."""
    stack = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
    os.environ.setdefault(VARIABLE, f"{socket.gethostname()}-{stack}-{name}")


def name_alone(role: str) -> None:
    """Gives a role without a supervisor a name that no other process has, unless it has one already."""
    os.environ.setdefault(VARIABLE, f"{socket.gethostname()}-{role}-{os.getpid()}-{secrets.token_hex(4)}")


def instance_name(role: str) -> str:
    """The name of this process."""
    return os.environ.get(VARIABLE) or f"{role}-{os.getpid()}"
