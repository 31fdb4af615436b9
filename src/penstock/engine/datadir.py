"""The data folder: its layout, the lock that keeps a second stack out, and what the last run left behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from penstock.engine.private_folder import check_owner, close_to_others
from penstock.engine.problem import Problem
from penstock.settings import Settings

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

        Raises Problem if the folder cannot be used or is in use.
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
            raise Problem(
                f"The data folder {self.root} cannot be used: no permission for {error.filename}.",
                "Change its owner or rights, or choose another with --data-dir.",
            ) from None
        except (FileExistsError, NotADirectoryError) as error:
            raise Problem(
                f"The data folder {self.root} cannot be used: {error.filename} is not a folder.",
                "Remove it, or choose another with --data-dir.",
            ) from None
        except OSError as error:
            raise Problem(
                f"The data folder {self.root} cannot be used: {error.strerror}.",
                "Make room, or choose another with --data-dir.",
            ) from None
        if free < settings.min_free_disk_mib:
            self.close()
            raise Problem(
                f"The disk of {self.root} has {free} MiB left; penstock accepts events from "
                f"{settings.min_free_disk_mib} MiB on.",
                "Make room, choose another folder with --data-dir, or lower min_free_disk_mib.",
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
            raise Problem(
                f"Another stack{f' (pid {owner})' if owner else ''} runs on the data folder {self.root}.",
                "Stop it, or start this one with another --data-dir (and --port 0).",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock = fd


@contextlib.contextmanager
def exclusive(root: Path, what: str) -> Iterator[None]:
    """Keeps a second process from doing `what` on this data folder. Raises Problem where one does."""
    (root / LOCK_FILE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(root / LOCK_FILE.with_name(f"{what}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Problem(f"Another {what} runs on the data folder {root}.", "Choose another with --data-dir.") from None
    finally:
        os.close(held)


def load_settings(path: Path) -> Settings:
    """The resolved settings as the supervisor wrote them; flags, environment and files were read there already."""
    return Settings(**json.loads(path.read_bytes()))


def read_stack(root: Path) -> dict[str, Any] | None:
    """What the stack of a data folder last recorded; None if it never did. Raises Problem in another user's folder."""
    try:
        recorded: dict[str, Any] = json.loads((root / STACK_FILE).read_bytes())
    except PermissionError:
        raise Problem(
            f"The data folder {root} is for its owner alone.", "Ask as that user, or name another with --data-dir."
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
