"""The data folder: its layout, the lock that keeps a second stack out, and what the last run left behind."""

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

# A folder for its owner alone: it holds Secrets, certificates' keys and every event. Folders are 0700 and files 0600.
# What is made from now on comes out so because of the umask of every process; what an earlier version or another
# program left open is closed at the next start, and that is said.

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
    """Raises UserError if the folder is somebody else's. The administrator may use it and is told; then the remark."""
    owner = _owner(root)
    if owner == os.geteuid():
        return None
    if os.geteuid() == 0:
        return f"The data folder {root} belongs to {_name(owner)}; what is added to it belongs to {_name(0)}."
    raise UserError(
        f"The data folder {root} belongs to {_name(owner)}, who could read all events and Secrets in it.",
        "Choose your own with --data-dir; penstock creates it with private permissions.",
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
        """Creates the folders, takes the lock and closes the folder to other users; returns what to tell of that.

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
                "Change its owner or permissions, or choose another with --data-dir.",
            ) from None
        except (FileExistsError, NotADirectoryError) as error:
            raise UserError(
                f"The data folder {self.root} cannot be used: {error.filename} is not a folder.",
                "Remove it, or choose another with --data-dir.",
            ) from None
        except OSError as error:
            raise UserError(
                f"The data folder {self.root} cannot be used: {error.strerror}.",
                "Free some space, or choose another with --data-dir.",
            ) from None
        if free < settings.min_free_disk_mib:
            self.close()
            raise UserError(
                f"The disk of {self.root} has {free} MiB left; penstock needs at least "
                f"{settings.min_free_disk_mib} MiB to accept events.",
                "Free some space, choose another folder with --data-dir, or lower min_free_disk_mib.",
            )
        return [remark for remark in remarks if remark is not None]

    def close(self) -> None:
        """Gives the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear_metrics(self) -> None:
        """Removes what the last run's processes counted: counters start at zero with the stack."""
        for left in (self.root / "metrics").iterdir():
            left.unlink(missing_ok=True)

    def write_stack(self, stack: dict[str, Any]) -> None:
        """Records what runs, for `penstock status` and for the next start."""
        write_atomically(self.root / STACK_FILE, json.dumps(stack, indent=2).encode())

    def write_settings(self, settings: Settings) -> Path:
        """Writes the resolved settings for the child processes."""
        path = self.root / SETTINGS_FILE
        write_atomically(path, settings.model_dump_json(indent=2).encode())
        return path

    def end_leftovers(self, patience: float = 8.0) -> None:
        """Waits for processes of a run that was killed to end, and ends those that do not.

        They are known by pid and start time, so a number that was given to another program since is left alone.
        """
        left = [process for process in map(_same_process, read_processes(self.root)) if process is not None]
        _, alive = psutil.wait_procs(left, timeout=patience)
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
                f"Another stack{f' (pid {owner})' if owner else ''} is running on the data folder {self.root}.",
                "Stop it, or start this one with another --data-dir (and --port 0).",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock = fd


@contextlib.contextmanager
def exclusive(root: Path, what: str) -> Iterator[None]:
    """Keeps a second process from doing `what` on this data folder. Raises UserError where one does."""
    (root / LOCK_FILE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(root / LOCK_FILE.with_name(f"{what}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(
            f"Another {what} is running on the data folder {root}.", "Choose another with --data-dir."
        ) from None
    finally:
        os.close(held)


def load_settings(path: Path) -> Settings:
    """The resolved settings as the supervisor wrote them; flags, environment and files were read there already."""
    return Settings(**json.loads(path.read_bytes()))


def read_stack(root: Path) -> dict[str, Any] | None:
    """What the stack of a data folder last recorded; None if it never did. Raises UserError in another user's folder."""
    try:
        recorded: dict[str, Any] = json.loads((root / STACK_FILE).read_bytes())
    except PermissionError:
        raise UserError(
            f"The data folder {root} is readable by its owner only.",
            "Run the command as that user, or choose another folder with --data-dir.",
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
