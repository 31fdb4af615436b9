"""Which stacks of this user run: a small file for each in the user's state folder, so that commands find them.

A file only says which data folder to look at; whether a stack runs there, the lock of that folder says. What a killed
stack left behind is removed by whoever finds it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from penstock.engine import datadir


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files are: `$XDG_STATE_HOME/penstock/stacks`, which is below `~/.local/state` where it is not set."""
    state = environ.get("XDG_STATE_HOME", "")
    # The specification of these folders has relative paths ignored.
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "penstock" / "stacks"


def enter(root: Path, stacks: Path | None = None) -> None:
    """A stack runs on this data folder. A state folder that cannot be written costs only that it is not found."""
    stacks = stacks or folder()
    try:
        stacks.mkdir(mode=0o700, parents=True, exist_ok=True)
        datadir.write_atomically(_file(stacks, root), f"{root}\n".encode())
    except OSError:
        return


def leave(root: Path, stacks: Path | None = None) -> None:
    """It has ended."""
    try:
        _file(stacks or folder(), root).unlink(missing_ok=True)
    except OSError:
        return


def running(stacks: Path | None = None) -> list[Path]:
    """The data folders of the stacks that run, in the order of their names."""
    found = []
    for file in sorted((stacks or folder()).glob("*.stack")):
        try:
            root = Path(file.read_text().strip())
        except (OSError, ValueError):
            continue
        if datadir.runs(root):
            found.append(root)
        else:
            leave(root, stacks)
    return sorted(found)


def _file(stacks: Path, root: Path) -> Path:
    return stacks / f"{hashlib.sha256(str(root).encode()).hexdigest()[:16]}.stack"
