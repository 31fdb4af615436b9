"""The connection between a built-in program and its node: JSON lines over the socket that is the program's stdin.

The node first sends `Start`. Then the program may call the following, for its own Pod only:

| call | result |
|---|---|
| `locate` (url) | the addresses of the URL to which the Pod's namespace may send |
| `record` (component, name, message) | none; writes an Event about the Pod |
| `review` (token, audience) | the user of the token, as in a TokenReview |
| `certificate` (service) | a certificate and its key for a Service of the Pod's namespace |
| `ready`, `ended` (message) | none; the program is ready; why it ended |

With a ServiceAccount token the program could record Events and review tokens, but not get addresses and certificates,
and every such Pod would need a Role. So the program has no credentials and no access to the API.
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
"""Larger than any Event of the Kubernetes API (3 MiB)."""


class NodeRefused(Exception):
    """The node returned an error for a call."""


class Start(msgspec.Struct, frozen=True):
    """How the program is started."""

    program: ActorName
    env: dict[str, str]
    pod: str
    """The Pod's name."""
    ip: str
    ports: dict[int, int]
    """The ports to listen on for the ports of the image."""
    volumes: list[tuple[str, str]]
    """(path in the container, path on this machine)"""
    most_bytes: int
    """The largest event."""
    grace: float
    """Seconds for open requests when the program is stopped."""


class Call(msgspec.Struct, frozen=True):
    """A call of the program."""

    number: int
    name: str
    arguments: dict[str, str] = {}


class Reply(msgspec.Struct, frozen=True):
    """The node's reply to a call."""

    number: int
    result: Any = None
    error: str | None = None


class Reach(msgspec.Struct, frozen=True):
    """The location of a URL."""

    targets: list[Target]
    trusted: str = ""
    """The trust bundles in PEM, for an https URL."""


_STARTS, _REPLIES = msgspec.json.Decoder(Start), msgspec.json.Decoder(Reply)


class NodeLine:
    """The program's end of the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Reply]] = {}

    @classmethod
    async def on(cls, line: socket.socket) -> NodeLine:
        """The connection at this socket."""
        return cls(*await asyncio.open_connection(sock=line, limit=LONGEST_LINE))

    async def start(self) -> Start:
        """Reads the first message. Raises ConnectionError if the node has ended."""
        return _STARTS.decode(await self._line())

    async def read(self) -> None:
        """Reads replies for ever. Raises ConnectionError when the node has ended."""
        while True:
            reply = _REPLIES.decode(await self._line())
            asked = self._asked.pop(reply.number, None)
            if asked is not None and not asked.done():
                asked.set_result(reply)

    async def ask(self, name: str, kind: Any, /, **arguments: str) -> Any:
        """Calls the node; the result, converted to the type. Raises NodeRefused."""
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
        """Calls the node without waiting for a reply."""
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
