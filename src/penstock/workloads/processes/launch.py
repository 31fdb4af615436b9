"""Starts the program of a container: mounts its files, ties it to the life of the node, and executes the program.

`launch.py NODE_PID [--root EMPTY_FOLDER] [--mount SOURCE TARGET]… -- FILE NAME [ARGUMENT…]`

The mounts are in a private mount namespace (Linux user namespaces, without privileges), so the rest of the machine does
not see them. For a target that does not exist, its nearest existing parent is replaced by a tmpfs with all entries of
the parent and the target. The user stays the same.

It is run as a script by its path and imports only the standard library, because it runs for every container.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
CANNOT_START = 125
"""Exit code for an error before the program was executed."""


class Namespace:
    """The mount namespace of this process."""

    def __init__(self, root: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._root = root
        self._own: set[int] = set()
        """The devices of the tmpfs mounts; mount points are created only there."""
        self._enter()

    def show(self, mounts: list[tuple[str, str]]) -> None:
        """Mounts each source at its target."""
        # Opened first, because a new root or an earlier mount may hide a source.
        opened = [(os.open(source, os.O_PATH), target) for source, target in mounts]
        for fd, target in opened:
            place = os.path.realpath(target)
            if not os.path.exists(place):
                self._make_place(place, stat.S_ISDIR(os.fstat(fd).st_mode))
            self._mount(f"/proc/self/fd/{fd}", place, None, MS_BIND | MS_REC)
            os.close(fd)

    def _enter(self) -> None:
        uid, gid = os.getuid(), os.getgid()
        if uid != 0 or self._libc.unshare(CLONE_NEWNS) != 0:
            self._check(self._libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
            for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
                with open(f"/proc/self/{file}", "w", encoding="ascii") as out:
                    out.write(text)
        self._mount("none", "/", None, MS_REC | MS_PRIVATE)

    def _make_place(self, place: str, folder: bool) -> None:
        parent = os.path.dirname(place)
        while not os.path.isdir(parent):
            parent = os.path.dirname(parent)
        if os.stat(parent).st_dev not in self._own:
            self._replace_root() if parent == "/" else self._mirror(parent, parent)
            self._own.add(os.stat(parent).st_dev)
        os.makedirs(place if folder else os.path.dirname(place), exist_ok=True)
        if not folder:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))

    def _replace_root(self) -> None:
        folder = os.getcwd()
        self._mirror("/", self._root)
        os.chroot(self._root)
        os.chdir(folder)

    def _mirror(self, shown: str, at: str) -> None:
        """Mounts a tmpfs at `at` with all entries of the folder `shown`."""
        fd = os.open(shown, os.O_PATH | os.O_DIRECTORY)
        names = os.listdir(shown)
        mode = stat.S_IMODE(os.stat(shown).st_mode)
        self._mount("tmpfs", at, b"tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}".encode())
        for name in names:
            original, copy = f"/proc/self/fd/{fd}/{name}", os.path.join(at, name)
            try:
                self._mirror_one(original, copy)
            except OSError:
                continue  # removed meanwhile, or not accessible
        os.close(fd)

    def _mirror_one(self, original: str, copy: str) -> None:
        kind = os.lstat(original).st_mode
        if stat.S_ISLNK(kind):
            os.symlink(os.readlink(original), copy)
            return
        if stat.S_ISDIR(kind):
            os.mkdir(copy)
        else:
            os.close(os.open(copy, os.O_CREAT | os.O_WRONLY, 0o600))
        self._mount(original, copy, None, MS_BIND | MS_REC)

    def _mount(self, source: str, target: str, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
        done = self._libc.mount(os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), data)
        self._check(done, f"mount {target}")

    def _check(self, done: int, what: str) -> None:
        if done != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")


def tie(parent: int) -> bool:
    """Asks the kernel (Linux) to kill this process when its parent dies; False if the parent has died already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def main(argv: list[str]) -> int:
    """Only returns when the program could not be started."""
    split = argv.index("--")
    parent, options, program = int(argv[0]), argv[1:split], argv[split + 1 :]
    root, mounts = "", []
    while options:
        if options[0] == "--root":
            root, options = options[1], options[2:]
        else:
            mounts.append((options[1], options[2]))
            options = options[3:]
    try:
        if mounts:
            Namespace(root).show(mounts)
        if not tie(parent):
            return CANNOT_START
        os.execv(program[0], program[1:])  # noqa: S606  # the command that a setting names
    except OSError as error:
        print(f"cannot start {program[1]}: {error.strerror or error}", file=sys.stderr, flush=True)
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
