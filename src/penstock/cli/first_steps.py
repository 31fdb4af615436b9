"""What to paste after a start: a Broker, a subscriber that prints, a Trigger, an event. Any shell will do."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.settings import Settings

USUAL_PORT = 9000


def lines(settings: Settings, program: str, port: int, *, is_alone: bool) -> list[str]:
    """The commands, in order. Where other stacks run, each says which one is meant."""
    where = "" if is_alone else f" --data-dir {shlex.quote(str(settings.data_dir))}"
    at = "" if port == USUAL_PORT else f" --port {port}"
    return [
        f"{program} create broker{where}",
        f"{program} listen --count 1{at} &",
        f"{program} create trigger greetings --subscriber http://127.0.0.1:{port}/{where}",
        f'{program} send \'{{"hello": "world"}}\' --watch{where}',
    ]


def program() -> str:
    """How a shell calls this program: by its name where that leads here, else by its path."""
    here = Path(sys.argv[0])
    found = shutil.which("penstock")
    if here.name != "penstock":
        here = Path(sys.executable).with_name("penstock")
    if found is not None and Path(found).resolve() == here.resolve():
        return "penstock"
    return shlex.quote(str(here.absolute()))


def free_port() -> int:
    """A port for a subscriber: the usual one, unless it is in use."""
    for port in (USUAL_PORT, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    return USUAL_PORT
