"""Files that only their owner can read (keys, tokens, kubeconfigs), and paths that stay below a folder."""

from __future__ import annotations

import os
from pathlib import Path

LONGEST_NAME = 255
"""Bytes in the name of a file, on the usual file systems."""


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


class LeadsOutside(ValueError):
    """A name would lead out of its folder."""


def path_below(folder: Path, *names: str) -> Path:
    """The path of these names below the folder.

    Raises LeadsOutside if a name is not a single path component, or if symbolic links lead out of the folder.
    """
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name or len(name.encode(errors="replace")) > LONGEST_NAME:
            raise LeadsOutside(f"{name[:LONGEST_NAME]!r} is not the name of a file")
    path = folder.joinpath(*names)
    try:
        stays = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of symbolic links, or an invalid name
        raise LeadsOutside(f"{'/'.join(names)!r} cannot be the path of a file: {error}") from None
    if not stays:
        raise LeadsOutside(f"{'/'.join(names)!r} leads out of its folder by a symbolic link")
    return path
