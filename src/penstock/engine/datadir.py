"""The data folder: its layout, its permissions, the lock that excludes a second stack, and leftovers of the last run.

It holds Secrets, keys of certificates and every event, so only its owner may read it: folders are 0700 and files 0600.
Every process has a umask for that; a start also closes what an earlier version or another program left open.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from penstock.runtime.errors import UserError
from penstock.settings import Settings

UMASK = 0o077
"""The umask of every process of a stack: no rights for group and others."""

OTHERS = 0o077
"""Permission bits of group and others."""

OWN = (
    *("api.db*", "history", "kafka", "kubeconfig*", "logs", "metrics", "pki", "pods", "run", "sources.db*"),
    *("spark",),
)
"""What penstock writes to its data folder. Other files there are not touched."""


def administrator_remark() -> str | None:
    """A warning if the stack runs as root, otherwise None."""
    if os.geteuid() != 0:
        return None
    return (
        "penstock runs as root, and so do the programs of Pods: everyone who may create Pods is root on this machine. "
        "Run it as an unprivileged user (docs/deployment.md)."
    )


def check_owner(root: Path) -> str | None:
    """Raises UserError if the folder belongs to another user. For root, returns a warning instead."""
    owner = _owner(root)
    if owner == os.geteuid():
        return None
    if os.geteuid() == 0:
        return f"The data folder {root} belongs to {_name(owner)}; new files in it will belong to {_name(0)}."
    raise UserError(
        f"The data folder {root} belongs to {_name(owner)}, who could read every event and Secret in it.",
        "Choose a folder of your own with --data-dir. A new one is created so that only you can read it.",
    )


def close_to_others(root: Path) -> str | None:
    """Removes the rights of group and others from the files of penstock; returns a notice if there were any.

    The folder itself is closed too, unless it holds other files, which other users may need.
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
    """Removes the rights of group and others; whether there were any."""
    try:
        mode = path.lstat().st_mode
        if not mode & OTHERS or stat.S_ISLNK(mode):
            return False
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    except FileNotFoundError:  # removed by a process of an earlier run that is still ending
        return False
    return True


def _with_all_below(entries: list[Path]) -> Iterator[Path]:
    """The entries and all below, folders first: files in a closed folder cannot be opened meanwhile."""
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


FOLDERS = ("logs", "run", "metrics", "spark")
STACK_FILE = Path("run", "stack.json")
LOCK_FILE = Path("run", "lock")
SETTINGS_FILE = Path("run", "settings.json")


class DataDir:
    """The data folder of one stack, held by a lock while the stack runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock: int | None = None

    def open(self, settings: Settings) -> list[str]:
        """Creates the folders, takes the lock and closes the folder to other users; returns notices for the user.

        Raises UserError if the folder cannot be used or is in use.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            remarks = [check_owner(self.root)]
            for name in FOLDERS:
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
            self._take_lock()
            remarks.append(close_to_others(self.root))
            free = shutil.disk_usage(self.root).free // 2**20
        except PermissionError as error:
            raise UserError(
                f"The data folder {self.root} cannot be used: no permission for {error.filename}.",
                "Change its owner or permissions, or choose another folder with --data-dir.",
            ) from None
        except (FileExistsError, NotADirectoryError) as error:
            raise UserError(
                f"The data folder {self.root} cannot be used: {error.filename} is not a folder.",
                "Remove it, or choose another with --data-dir.",
            ) from None
        except OSError as error:
            raise UserError(
                f"The data folder {self.root} cannot be used: {error.strerror}.",
                "Free some disk space, or choose another folder with --data-dir.",
            ) from None
        if free < settings.min_free_disk_mib:
            self.close()
            raise UserError(
                f"The disk of {self.root} has {free} MiB left; penstock needs {settings.min_free_disk_mib} MiB.",
                "Free some disk space, choose another folder with --data-dir, or lower min_free_disk_mib.",
            )
        return [remark for remark in remarks if remark is not None]

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear_metrics(self) -> None:
        """Removes the metrics of the last run: counters start at zero with the stack."""
        for left in (self.root / "metrics").iterdir():
            left.unlink(missing_ok=True)

    def write_stack(self, stack: dict[str, Any]) -> None:
        """Records the running components, for `penstock status` and for the next start."""
        write_atomically(self.root / STACK_FILE, json.dumps(stack, indent=2).encode())

    def write_settings(self, settings: Settings) -> Path:
        """Writes the resolved settings for the child processes."""
        path = self.root / SETTINGS_FILE
        write_atomically(path, settings.model_dump_json(indent=2).encode())
        return path

    def end_leftovers(self, timeout: float = 8.0) -> None:
        """Waits for processes of a killed run to end, and kills those that do not.

        They are identified by pid and start time, so a reused pid is not touched.
        """
        left = [process for process in map(_same_process, read_processes(self.root)) if process is not None]
        _, alive = psutil.wait_procs(left, timeout=timeout)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=5)

    def _take_lock(self) -> None:
        fd = os.open(self.root / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 32, 0).decode().strip()
            os.close(fd)
            raise UserError(
                f"Another stack{f' (pid {owner})' if owner else ''} runs on the data folder {self.root}.",
                "Stop it, or start this one with another --data-dir (and --port 0).",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock = fd


@contextlib.contextmanager
def exclusive(root: Path, what: str) -> Iterator[None]:
    """A lock, so that only one process does `what` on this data folder. Raises UserError if another process has it."""
    (root / LOCK_FILE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(root / LOCK_FILE.with_name(f"{what}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(f"Another {what} runs on the data folder {root}.", "Choose another with --data-dir.") from None
    finally:
        os.close(held)


def load_settings(path: Path) -> Settings:
    """The resolved settings as the supervisor wrote them."""
    return Settings(**json.loads(path.read_bytes()))


def read_stack(root: Path) -> dict[str, Any] | None:
    """What the stack of a data folder last recorded, or None. Raises UserError if the folder is another user's."""
    try:
        recorded: dict[str, Any] = json.loads((root / STACK_FILE).read_bytes())
    except PermissionError:
        raise UserError(
            f"No permission to read the data folder {root}.",
            "Run this as its owner, or choose another with --data-dir.",
        ) from None
    except (FileNotFoundError, ValueError):
        return None
    return recorded


def runs(root: Path) -> bool:
    """Whether a stack holds the lock of this data folder."""
    try:
        fd = os.open(root / LOCK_FILE, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_processes(root: Path) -> list[tuple[int, float]]:
    """Pid and start time of the components in the record."""
    components = (read_stack(root) or {}).get("components", {})
    return [(one["pid"], one["created"]) for one in components.values() if one.get("pid") and one.get("created")]


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file that a reader sees either in its old or in its new state."""
    draft = path.with_suffix(path.suffix + ".new")
    draft.write_bytes(content)
    draft.replace(path)


def _same_process(known: tuple[int, float]) -> psutil.Process | None:
    pid, created = known
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - created) < 1 else None
    except psutil.Error:
        return None
