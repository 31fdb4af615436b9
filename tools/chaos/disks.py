"""A small disk of its own below a folder: one that can be filled, and one whose machine can lose its power.

It is ext4 in a file, mounted by way of a loop device. Whoever mounts one lives in a mount namespace of its own, so
that nothing of it is left when its processes have ended, however they ended: the kernel unmounts, and gives the loop
device back.

Losing power is `EXT4_IOC_SHUTDOWN` without a flush, by which the kernel's own tests do it: from then on nothing
reaches the disk any more. What was written and not synced is in memory only and goes with the mount, and the next
mount replays the journal, as after a real loss of power.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MIB = 2**20
PROGRAMS = ("mount", "umount", "mkfs.ext4", "unshare")
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSH = 2
NAMESPACE = "CHAOS_MOUNTS"
OWN = "own"
BUSY_SECONDS = 30.0
PIECES = (64 * MIB, MIB, 4096)
"""By which a disk is filled."""


def missing() -> str | None:
    """What this machine lacks for mounting; None where it lacks nothing."""
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(absent)} is not installed (Debian: apt-get install mount e2fsprogs util-linux)"
    if os.geteuid() != 0:
        return "only root may mount file systems: run it as root"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices (modprobe loop; a container needs --privileged)"
    if subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode:
        return "no mount namespace can be made (a container needs --privileged)"
    return None


def inside() -> bool:
    """Whether this process is in a mount namespace of its own."""
    return os.environ.get(NAMESPACE) == OWN


def enter(command: list[str]) -> None:
    """Runs the command in a mount namespace of its own, in place of this process."""
    os.environ[NAMESPACE] = OWN
    sys.stdout.flush()
    sys.stderr.flush()
    whole = [*_unshare(), *command]
    os.execvp(whole[0], whole)


def _unshare() -> list[str]:
    return ["unshare", "--mount", "--propagation", "private"]


class Disk:
    """A disk of its own, mounted at a folder."""

    def __init__(self, image: Path, at: Path) -> None:
        self.image, self.at = image, at
        self._ballast = at / "ballast"

    def make(self, mib: int) -> None:
        """A new one of this size, mounted."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        self.at.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(mib * MIB)
        _do("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        self.mount()
        (self.at / "lost+found").rmdir()

    def mount(self) -> None:
        """Mounts it; after a loss of power this replays the journal."""
        _do("mount", "-o", "loop", str(self.image), str(self.at))

    def unmount(self) -> None:
        """Waits for processes that end to let go of it."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                _do("umount", str(self.at))
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def fill(self, leave_mib: int = 0) -> None:
        """Takes all room but this much."""
        with self._ballast.open("ab") as file:
            for piece in PIECES:
                while self.free() - piece >= leave_mib * MIB:
                    try:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break

    def make_room(self) -> None:
        """Gives back what was taken."""
        self._ballast.unlink(missing_ok=True)

    def free(self) -> int:
        """Bytes that are free."""
        found = os.statvfs(self.at)
        return found.f_bavail * found.f_frsize

    def lose_power(self) -> None:
        """From now on nothing reaches it, and what has not reached it is lost. It can only be unmounted."""
        folder = os.open(self.at, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(folder)


@contextlib.contextmanager
def mounted(at: Path, image: Path, mib: int) -> Iterator[Disk]:
    """A new disk, unmounted in the end. Its image stays."""
    disk = Disk(image, at)
    disk.make(mib)
    try:
        yield disk
    finally:
        if at.is_mount():
            disk.unmount()


def _do(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True, text=True)
