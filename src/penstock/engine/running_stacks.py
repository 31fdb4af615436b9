"""The running stacks of this user: a small file for each in the user's state folder, so that commands find them.

A file contains the path of a data folder; whether a stack runs there is decided by the lock of that folder. Files of
killed stacks are removed when they are found.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from penstock.engine import datadir


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the files: `$XDG_STATE_HOME/penstock/stacks`; the default of the variable is `~/.local/state`."""
    state = environ.get("XDG_STATE_HOME", "")
    # The XDG specification says that relative paths are ignored.
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "penstock" / "stacks"


def enter(root: Path, stacks: Path | None = None) -> None:
    """Registers a stack. If the state folder cannot be written, commands will not find it without --data-dir."""
    stacks = stacks or folder()
    try:
        stacks.mkdir(mode=0o700, parents=True, exist_ok=True)
        datadir.write_atomically(_file(stacks, root), f"{root}\n".encode())
    except OSError:
        return


def leave(root: Path, stacks: Path | None = None) -> None:
    """Removes the file of a stack that has ended."""
    try:
        _file(stacks or folder(), root).unlink(missing_ok=True)
    except OSError:
        return


def running(stacks: Path | None = None) -> list[Path]:
    """The data folders of the running stacks, sorted."""
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
