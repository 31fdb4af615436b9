"""Class data sharing archives: classes that a JVM has loaded, kept so that the next one maps them instead.

Kafka and Spark each load thousands of classes before they serve; an archive saves seconds of a start and of every
restart after a crash. A stack that finds none makes one from its running JVMs when it is told to stop: a JVM stands
still while its archive is made, on a busy machine for many seconds, and nothing should wait for that.

An archive can never break a start. It is named after its length and the Java and the jars it was made from, appears
whole or not at all, is verified by the JVM before use, and is passed over with `-Xshare:auto` if anything is wrong with
it. Before the last try of a program that does not become ready its archive is removed.
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

# Diagnostic commands for a running JVM, as `jcmd` gives them; a runtime without development tools has no `jcmd`. The
# JVM must have been started with `-XX:+StartAttachListener`. It listens on a socket that only its user may open; a
# request is its version, the word `jcmd` and the command, and the answer is a status line and text.

PROTOCOL = "1"


class AttachRefused(Exception):
    """The JVM did not do it; the text is its own."""


def command(pid: int, line: str, timeout: float) -> str:
    """What a diagnostic command prints in a JVM. Raises AttachRefused, or OSError if it does not listen."""
    request = "".join(f"{word}\0" for word in (PROTOCOL, "jcmd", line, "", ""))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(str(_folder() / f".java_pid{pid}"))
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode(errors="replace")
    status, _, text = answer.partition("\n")
    if status.strip() != "0":
        raise AttachRefused(text.strip() or status)
    return text


def _folder() -> Path:
    """Where HotSpot puts its socket: not where TMPDIR points, except on macOS."""
    return Path("/tmp") if sys.platform == "linux" else Path(tempfile.gettempdir())  # noqa: S108


KEPT = 4
"""Archives of one program that are kept: those used last. Each installation of penstock has its own."""

DUMP_SECONDS = 15.0
"""Longest that a stop waits for an archive: the next one can make it."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one program, made or not."""

    folder: Path
    name: str
    """The program, and what the archive is made from."""

    def find(self) -> Path | None:
        """The file, if there is one that is whole: its length is in its name. A JVM crashes on one that was cut off."""
        for file in self.folder.glob(f"{self.name}-*.jsa"):
            with contextlib.suppress(OSError):
                if file == self._named(file.stat().st_size):
                    return file
        return None

    def options(self) -> list[str]:
        """What the JVM is started with: to use the archive, or to be able to make it."""
        always = ["-Xlog:cds*=off", "-Xshare:auto", "-XX:+IgnoreUnrecognizedVMOptions"]
        file = self.find()
        if file is None:
            return [*always, "-XX:+RecordDynamicDumpInfo", "-XX:+StartAttachListener"]
        with contextlib.suppress(OSError):
            os.utime(file)  # used last: kept longest
        return [*always, f"-XX:SharedArchiveFile={file}", "-XX:+VerifySharedSpaces"]

    def make(self, pid: int, seconds: float = DUMP_SECONDS) -> bool:
        """Makes the archive from a JVM that was started without it. False if it cannot: nothing depends on it."""
        if self.find() is not None:
            return True
        draft = self.folder / f"{self.name}.{pid}.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._making():
                self._make(pid, draft, seconds)
        except (OSError, AttachRefused):
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    @contextlib.contextmanager
    def _making(self) -> Iterator[None]:
        """Keeps others from making one meanwhile. Raises BlockingIOError where another does."""
        lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(lock)

    def _make(self, pid: int, draft: Path, seconds: float) -> None:
        command(pid, f'VM.cds dynamic_dump "{draft}"', seconds)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        self.discard()
        draft.rename(self._named(draft.stat().st_size))
        self._sweep()

    def discard(self) -> None:
        """Removes the archive: it is damaged, or suspected of keeping its program from becoming ready."""
        for file in self.folder.glob(f"{self.name}-*.jsa"):
            file.unlink(missing_ok=True)

    def _named(self, size: int) -> Path:
        return self.folder / f"{self.name}-{size}.jsa"

    def _sweep(self) -> None:
        program = self.name.partition("-")[0]
        found = sorted(self.folder.glob(f"{program}-*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in found[KEPT:]:
            old.unlink(missing_ok=True)
        for draft in self.folder.glob("*.new*"):  # of a JVM that was ended before its archive was whole
            if not psutil.pid_exists(_pid_of(draft)):
                draft.unlink(missing_ok=True)


def archive_of(program: str, folder: Path, java_home: Path, classpath: Iterable[Path]) -> ClassArchive:
    """The archive that belongs to this Java and these jars. A change in either makes it another one."""
    made_from = hashlib.sha256()
    for path in (java_home / "lib" / "modules", *classpath):
        made_from.update(f"{path} {_stamp(path)}\n".encode())
    return ClassArchive(folder, f"{program}-{made_from.hexdigest()[:16]}")


def _pid_of(draft: Path) -> int:
    """The JVM that writes it; 0 if its name does not say."""
    pid = draft.name.partition(".")[2].partition(".")[0]
    return int(pid) if pid.isdigit() else 0


def _stamp(path: Path) -> str:
    """What the JVM too compares of a jar: its size and when it was changed."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return "missing"
    return f"{found.st_size} {found.st_mtime_ns}"
