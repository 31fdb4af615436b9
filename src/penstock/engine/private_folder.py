"""A folder for its owner alone: it holds Secrets, certificates' keys and every event.

Folders are 0700 and files 0600. What is made from now on comes out so because of the umask of every process; what an
earlier version or another program left open is closed at the next start, and that is said.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from penstock.engine.problem import Problem

UMASK = 0o077
"""What the processes of a stack withhold from everybody but their owner when they make files and folders."""

OTHERS = 0o077
"""The rights of group and others."""

OWN = (
    *("api.db*", "history", "kafka", "kubeconfig*", "logs", "metrics", "pki", "pods", "run", "sources.db*"),
    *("spark",),
)
"""What penstock keeps in its data folder. Anything else there is left alone."""


def administrator_remark() -> str | None:
    """What it means that the stack runs as the administrator of the machine; None where it does not."""
    if os.geteuid() != 0:
        return None
    return (
        "penstock runs as root, and so do the programs of Pods: all who may create Pods act as root on this machine. "
        "Run it as an account of its own (docs/deployment.md)."
    )


def check_owner(root: Path) -> str | None:
    """Raises Problem if the folder is somebody else's. The administrator may use it and is told; then the remark."""
    owner = _owner(root)
    if owner == os.geteuid():
        return None
    if os.geteuid() == 0:
        return f"The data folder {root} belongs to {_name(owner)}; what is added to it belongs to {_name(0)}."
    raise Problem(
        f"The data folder {root} belongs to {_name(owner)}, who could read every event and Secret in it.",
        "Choose one of your own with --data-dir; a new folder is made for you alone.",
    )


def close_to_others(root: Path) -> str | None:
    """Takes from group and others whatever rights they have to what penstock keeps; says so if they had any.

    The folder itself is closed too, unless it holds other things that somebody may need to get at.
    """
    entries = list(root.iterdir())
    own = [entry for entry in entries if any(entry.match(pattern) for pattern in OWN)]
    readable = False
    try:
        if own == entries:
            _close(root)
        for entry in _with_all_below(own):
            readable |= _close(entry)
    except OSError as error:
        return (
            f"Other users of this machine can read the data folder {root}; it could not be closed to them "
            f"({error.filename}: {error.strerror})."
        )
    return f"Other users of this machine could read the data folder {root}; it is closed now." if readable else None


def _close(path: Path) -> bool:
    """Whether it was open to others."""
    try:
        mode = path.lstat().st_mode
        if not mode & OTHERS or stat.S_ISLNK(mode):
            return False
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    except FileNotFoundError:  # a process of an earlier run is still about to end
        return False
    return True


def _with_all_below(entries: list[Path]) -> Iterator[Path]:
    """From above: once a folder is closed nobody gets at what is in it while that is looked through."""
    for entry in entries:
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            for folder, folders, files in os.walk(entry):
                yield from (Path(folder, name) for name in (*folders, *files))


def _owner(root: Path) -> int:
    return root.stat().st_uid


def _name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"
