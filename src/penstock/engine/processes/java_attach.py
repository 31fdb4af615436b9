"""Diagnostic commands for a running JVM, as `jcmd` gives them; a runtime without development tools has no `jcmd`.

The JVM must have been started with `-XX:+StartAttachListener`. It listens on a socket that only its user may open; a
request is its version, the word `jcmd` and the command, and the answer is a status line and text.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from pathlib import Path

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
