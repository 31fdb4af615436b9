"""Class data sharing archives: classes that a JVM has loaded, kept so that the next one maps them instead.

Kafka and Spark each load thousands of classes before they serve; an archive saves seconds of a start and of every
restart after a crash. If there is no archive, a stack creates one from its running JVMs when it is stopped: a JVM is
paused while its archive is written, on a busy machine for many seconds.

An archive cannot break a start. Its name contains its size and a hash of the Java and the jars it was made from, it is
renamed into place when complete, the JVM verifies it, and `-Xshare:auto` ignores an invalid one. Before the last
attempt to start a program its archive is removed.

The archive is written by a diagnostic command of the JVM (`jcmd PID VM.cds`). A Java runtime has no `jcmd`, so the
attach protocol is spoken here: the JVM listens on a Unix socket that only its user may open.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

ATTACH_PROTOCOL = "1"


class AttachRefused(Exception):
    """The JVM refused a diagnostic command; the message is the JVM's."""


def jvm_command(pid: int, line: str, timeout: float) -> str:
    """The output of a diagnostic command. The JVM must run with `-XX:+StartAttachListener`.

    Raises AttachRefused, or OSError if the JVM does not listen.
    """
    request = "".join(f"{word}\0" for word in (ATTACH_PROTOCOL, "jcmd", line, "", ""))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(str(_attach_folder() / f".java_pid{pid}"))
        connection.sendall(request.encode())
        response = b"".join(iter(lambda: connection.recv(4096), b"")).decode(errors="replace")
    status, _, text = response.partition("\n")
    if status.strip() != "0":
        raise AttachRefused(text.strip() or status)
    return text


def _attach_folder() -> Path:
    """The folder of HotSpot's socket: it ignores TMPDIR, except on macOS."""
    return Path("/tmp") if sys.platform == "linux" else Path(tempfile.gettempdir())  # noqa: S108


ARCHIVES_KEPT = 4
"""How many archives of a program are kept, the most recently used. Each installation of penstock has its own."""

DUMP_SECONDS = 15.0
"""How long a stop waits for an archive."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one program. It may not exist yet."""

    folder: Path
    name: str
    """The program, and a hash of what the archive is made from."""

    def find(self) -> Path | None:
        """The file, if its size is the one in its name: a JVM crashes on a truncated archive."""
        for file in self.folder.glob(f"{self.name}-*.jsa"):
            with contextlib.suppress(OSError):
                if file == self._path(file.stat().st_size):
                    return file
        return None

    def options(self) -> list[str]:
        """JVM options to use the archive or, if there is none, to be able to create it."""
        always = ["-Xlog:cds*=off", "-Xshare:auto", "-XX:+IgnoreUnrecognizedVMOptions"]
        file = self.find()
        if file is None:
            return [*always, "-XX:+RecordDynamicDumpInfo", "-XX:+StartAttachListener"]
        with contextlib.suppress(OSError):
            os.utime(file)  # the most recently used are kept
        return [*always, f"-XX:SharedArchiveFile={file}", "-XX:+VerifySharedSpaces"]

    def make(self, pid: int, seconds: float = DUMP_SECONDS) -> bool:
        """Creates the archive from a JVM that was started without it; whether that succeeded."""
        if self.find() is not None:
            return True
        draft = self.folder / f"{self.name}.{pid}.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock():
                self._make(pid, draft, seconds)
        except (OSError, AttachRefused):
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Locks the folder. Raises BlockingIOError if another process creates an archive."""
        lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(lock)

    def _make(self, pid: int, draft: Path, seconds: float) -> None:
        jvm_command(pid, f'VM.cds dynamic_dump "{draft}"', seconds)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        self.discard()
        draft.rename(self._path(draft.stat().st_size))
        self._sweep()

    def discard(self) -> None:
        """Removes the archive, which may be the reason why its program does not become ready."""
        for file in self.folder.glob(f"{self.name}-*.jsa"):
            file.unlink(missing_ok=True)

    def _path(self, size: int) -> Path:
        return self.folder / f"{self.name}-{size}.jsa"

    def _sweep(self) -> None:
        program = self.name.partition("-")[0]
        found = sorted(self.folder.glob(f"{program}-*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in found[ARCHIVES_KEPT:]:
            old.unlink(missing_ok=True)
        for draft in self.folder.glob("*.new*"):  # left by a JVM that ended while it wrote
            if not psutil.pid_exists(_pid_of(draft)):
                draft.unlink(missing_ok=True)


def archive_of(program: str, folder: Path, java_home: Path, classpath: Iterable[Path]) -> ClassArchive:
    """The archive for this Java and these jars."""
    made_from = hashlib.sha256()
    for path in (java_home / "lib" / "modules", *classpath):
        made_from.update(f"{path} {_fingerprint(path)}\n".encode())
    return ClassArchive(folder, f"{program}-{made_from.hexdigest()[:16]}")


def _pid_of(draft: Path) -> int:
    """The pid of the JVM that writes the file; 0 if the name contains none."""
    pid = draft.name.partition(".")[2].partition(".")[0]
    return int(pid) if pid.isdigit() else 0


def _fingerprint(path: Path) -> str:
    """Size and modification time of a jar, which the JVM compares too."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return "missing"
    return f"{found.st_size} {found.st_mtime_ns}"
