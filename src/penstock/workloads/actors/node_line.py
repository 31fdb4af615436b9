"""The connection between a built-in program and its node: JSON lines over the socket that is the program's stdin.

The node first sends how to start. Then the program may ask it for these, for its own Pod only, and for nothing else:

| call | answer |
|---|---|
| `locate` (url) | the addresses behind the URL that the Pod's namespace may send to |
| `record` (component, name, message) | an Event about the Pod is written |
| `review` (token, audience) | whose token it is, as a TokenReview tells it |
| `certificate` (service) | a certificate and its key for a Service of the Pod's namespace |
| `ready`, `ended` (message) | nothing: the program serves now; why it ends |

A ServiceAccount token would serve for `record` and `review`, but neither for addresses nor for certificates, and every
Pod of a built-in program would need a Role for it. So the program has no credentials and no access to the API at all.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Any

import msgspec

from penstock.contract.names import Target
from penstock.workloads.images import ActorName

LONGEST_LINE = 8 * 1024 * 1024
"""An Event of the Kubernetes API has at most 3 MiB."""


class NodeRefused(Exception):
    """The node could not do what it was asked for; the text says why."""


class Start(msgspec.Struct, frozen=True):
    """How the program is started."""

    program: ActorName
    env: dict[str, str]
    pod: str
    """The Pod's name."""
    ip: str
    ports: dict[int, int]
    """The ports that the Pod has in place of those of the image."""
    volumes: list[tuple[str, str]]
    """(path in the container, path on this machine)"""
    most_bytes: int
    """The largest event."""
    grace: float
    """Seconds for requests under way when the program is stopped."""


class Call(msgspec.Struct, frozen=True):
    """What the program asks for."""

    number: int
    name: str
    arguments: dict[str, str] = {}


class Reply(msgspec.Struct, frozen=True):
    """What the node answers."""

    number: int
    result: Any = None
    error: str | None = None


class Reach(msgspec.Struct, frozen=True):
    """Where a URL leads."""

    targets: list[Target]
    trusted: str = ""
    """The trust bundles in PEM, for a URL of TLS."""


_STARTS, _REPLIES = msgspec.json.Decoder(Start), msgspec.json.Decoder(Reply)


class NodeLine:
    """The program's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Reply]] = {}

    @classmethod
    async def on(cls, line: socket.socket) -> NodeLine:
        """The end at this socket."""
        return cls(*await asyncio.open_connection(sock=line, limit=LONGEST_LINE))

    async def start(self) -> Start:
        """What the node sends first. Raises ConnectionError where it is gone."""
        return _STARTS.decode(await self._line())

    async def read(self) -> None:
        """Takes the node's answers, for ever. Raises ConnectionError when the node is gone."""
        while True:
            reply = _REPLIES.decode(await self._line())
            asked = self._asked.pop(reply.number, None)
            if asked is not None and not asked.done():
                asked.set_result(reply)

    async def ask(self, name: str, kind: Any, /, **arguments: str) -> Any:
        """The node's answer, which is of this type. Raises NodeRefused."""
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send(Call(number, name, arguments))
            reply = await asked
        finally:
            self._asked.pop(number, None)
        if reply.error is not None:
            raise NodeRefused(reply.error)
        return msgspec.convert(reply.result, kind)

    async def notify(self, name: str, /, **arguments: str) -> None:
        """Tells the node what needs no answer."""
        await self._send(Call(0, name, arguments))

    async def _send(self, call: Call) -> None:
        line = msgspec.json.encode(call) + b"\n"
        if len(line) > LONGEST_LINE:
            raise NodeRefused(f"it is longer than {LONGEST_LINE} bytes")
        self._writer.write(line)
        await self._writer.drain()

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line:
            raise ConnectionError("the node is gone")
        return line
