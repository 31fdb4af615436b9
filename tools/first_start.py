"""Looks at what a start needs before anything is downloaded: Python, Java, free ports. Needs nothing but Python itself.

`make dev` runs it when there is no environment yet; later starts check all of it by themselves.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

PORTS = {"--port": 8080, "--api-port": 8443, "--kafka-port": 19092, "--metrics-port": 9090}
OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Says everything that is wrong, each with what to do; the exit code."""
    problems = [problem for look in (python, java) if (problem := look())] + busy_ports(arguments)
    for problem in problems:
        print(f"penstock: {problem}", file=sys.stderr)
    return 1 if problems else 0


def python() -> str | None:
    """What is wrong with this Python."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return None
    return f"it needs Python 3.11 or newer; {sys.executable} is older. Name another: make PYTHON=python3.12"


def java() -> str | None:
    """What is wrong with Java, in the words of penstock itself."""
    sys.path.insert(0, str(ROOT / "src"))
    from penstock.engine.java import find
    from penstock.runtime.errors import UserError

    try:
        find()
    except UserError as problem:
        return str(problem)
    return None


def busy_ports(arguments: list[str]) -> list[str]:
    """Ports that somebody listens on, of those that this start would take."""
    return [
        f"port {number} is in use. Choose another (make dev ARGS='{flag} NUMBER'), or free ones (ARGS='--port 0')."
        for flag, number in wanted(arguments, os.environ).items()
        if is_busy(number)
    ]


def wanted(arguments: list[str], environ: Mapping[str, str]) -> dict[str, int]:
    """The ports of this start that are known beforehand."""
    given = {flag: text for flag in PORTS if (text := _given(flag, arguments, environ)) is not None}
    if given.get("--port") == "0":
        return {flag: int(text) for flag, text in given.items() if text.isdigit() and int(text)}
    chosen = {flag: given.get(flag, str(number)) for flag, number in PORTS.items()}
    return {flag: int(text) for flag, text in chosen.items() if text.isdigit() and int(text)}


def _given(flag: str, arguments: list[str], environ: Mapping[str, str]) -> str | None:
    for number, argument in enumerate(arguments):
        if argument == flag and number + 1 < len(arguments):
            return arguments[number + 1]
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
    return environ.get("PENSTOCK_" + flag[2:].replace("-", "_").upper())


def is_busy(port: int) -> bool:
    """Whether the port of this machine is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
