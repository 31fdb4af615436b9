"""Access of a built-in program to the files in its container's volumes, by their paths in the container.

No other file of this machine is opened, whatever the environment contains: a path must be below the mount of a volume,
and with symbolic links resolved below the folder of that volume.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

MOST_BYTES = 16 * 1024 * 1024


class VolumeFiles:
    """The files of one container."""

    def __init__(self, volumes: Iterable[tuple[str, str]] = ()) -> None:
        """`volumes`: (path in the container, path on this machine)."""
        mounts = [(PurePosixPath(target), Path(source)) for target, source in volumes]
        # The innermost mount decides, as it does in a container.
        self._mounts = sorted(mounts, key=lambda mount: len(mount[0].parts), reverse=True)

    def find(self, path: str) -> Path:
        """The path on this machine of a path in the container. Raises OSError if it is not in a volume."""
        wanted = PurePosixPath(os.path.normpath(path))
        for target, source in self._mounts:
            if wanted.is_relative_to(target):
                return self._inside(source, source / wanted.relative_to(target), path)
        raise PermissionError(f"{path} is not in a volume of this container")

    async def read(self, path: str) -> bytes:
        """The content of a file. Raises OSError."""
        return await asyncio.to_thread(self._read, self.find(path), path)

    async def texts(self, path: str) -> list[str]:
        """The text of a file, or of the `.yaml` files of a folder in order. Raises OSError and UnicodeDecodeError."""
        return await asyncio.to_thread(self._texts, self.find(path), path)

    def _texts(self, place: Path, path: str) -> list[str]:
        if not place.is_dir():
            return [self._read(place, path).decode()]
        found = sorted(place.rglob("*.yaml"))
        return [self._read(self._inside(place, file, path), path).decode() for file in found]

    def _read(self, place: Path, path: str) -> bytes:
        if place.exists() and not place.is_file():
            raise PermissionError(f"{path} is not a file")
        with place.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise PermissionError(f"{path} has more than {MOST_BYTES} bytes")
        return content

    def _inside(self, volume: Path, place: Path, path: str) -> Path:
        if volume.resolve() != volume:
            raise PermissionError(f"{path} leads out of its volume")
        found = place.resolve()
        if not found.is_relative_to(volume):
            raise PermissionError(f"{path} leads out of its volume")
        return found
