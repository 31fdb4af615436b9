"""Watches: the initial state if requested, then every change as it is committed.

A watch reads from its kind's ring at its own pace and has no queue. It ends after its timeout, when the client
disconnects or is disconnected for not reading, or when the ring has evicted its position (410: the client lists again).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from starlette.types import Receive, Scope, Send

from penstock.apiserver import errors
from penstock.apiserver.documents import encode
from penstock.apiserver.http.rendering import Renderer
from penstock.apiserver.http.responses import pieces
from penstock.apiserver.store.storage import Change
from penstock.apiserver.verbs.history import Ring, WatchHistory

BATCH = 128
SEND_BYTES = 16 * 1024
BOOKMARK_SECONDS = 30.0
DEFAULT_TIMEOUT_SECONDS = 1800.0
MAX_WATCHES = 10_000

Event = tuple[bytes, ...]
"""One line of a watch, in parts."""


class Watches:
    """The running watches, to limit their number and to end them when the server stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def enter(self, task: asyncio.Task[object]) -> None:
        """Adds a watch; raises 429 if there are too many."""
        if len(self._tasks) >= MAX_WATCHES:
            raise errors.too_many(f"there are {MAX_WATCHES} watches already; try again later")
        self._tasks.add(task)

    def leave(self, task: asyncio.Task[object]) -> None:
        """Removes a watch that has ended."""
        self._tasks.discard(task)

    def __len__(self) -> int:
        return len(self._tasks)

    def end_all(self) -> None:
        """Ends every watch; clients reconnect when the server is back."""
        for task in tuple(self._tasks):
            task.cancel()


@dataclass(frozen=True)
class WatchScope:
    """Which objects are watched."""

    namespace: str | None
    name: str | None
    keep: Callable[[bytes], bool] | None

    def sees(self, change: Change) -> str | None:
        """The type of event that the change is for the watcher; None if it is not shown."""
        if self.namespace is not None and change.namespace != self.namespace:
            return None
        if self.name is not None and change.name != self.name:
            return None
        if self.keep is None:
            return change.type
        before = change.before is not None and self.keep(change.before)
        after = change.type != "DELETED" and self.keep(change.body)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


@dataclass(frozen=True)
class WatchStart:
    """Where a watch begins: objects to send first, and the version after which changes follow."""

    version: int
    initial: AsyncIterator[list[bytes]] | None = None
    """The existing objects, part after part; read while they are sent."""
    announce_end: bool = False
    """Whether a bookmark marks the end of the initial state."""


class WatchResponse:
    """The ASGI response that streams a watch."""

    def __init__(
        self,
        watches: Watches,
        history: WatchHistory,
        renderer: Renderer,
        scope: WatchScope,
        start: WatchStart,
        *,
        timeout: float,
        bookmarks: bool,
    ) -> None:
        self._watches, self._history, self._renderer = watches, history, renderer
        self._ring: Ring = history.ring(renderer.kind.resource)
        self._scope, self._start, self._timeout, self._bookmarks = scope, start, timeout, bookmarks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams until the watch or the connection ends."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # ASGI applications run in tasks
        self._watches.enter(task)
        leaving = asyncio.ensure_future(_disconnected(receive))
        over = False
        # A client that disconnects just when the watch ends must not cancel what the task does next.
        leaving.add_done_callback(lambda _: None if over or leaving.cancelled() else task.cancel())
        try:
            await self._stream(send)
        except asyncio.CancelledError:
            # The client has disconnected or the server stops: either way this response is over.
            task.uncancel()
        finally:
            over = True
            leaving.cancel()
            self._watches.leave(task)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout
        bookmark_at = loop.time() + BOOKMARK_SECONDS
        position = self._ring.position(self._start.version)
        if position is None:
            await self._send(send, _expired(self._start.version))
            return
        await self._announce(send)
        while True:
            following = self._following(position)
            if following is None:
                await self._send(send, _expired(self._start.version))
                return
            data, count = following
            if count:
                position += count
                await self._send(send, data)
                continue
            now = loop.time()
            if now >= end:
                if self._bookmarks:
                    await self._send(send, self._bookmark(self._history.version))
                return
            if self._bookmarks and now >= bookmark_at:
                await self._send(send, self._bookmark(self._history.version))
                bookmark_at = now + BOOKMARK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(end, bookmark_at) - now if self._bookmarks else end - now):
                    await self._ring.news()

    async def _announce(self, send: Send) -> None:
        if self._start.initial is not None:
            async for bodies in self._start.initial:
                events = (_event(b"ADDED", self._renderer.watched(body)) for body in bodies)
                await self._send(send, chain.from_iterable(events))
        if self._start.announce_end:
            await self._send(send, self._bookmark(self._start.version, ends_initial=True))
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": True})

    def _following(self, position: int) -> tuple[list[bytes], int] | None:
        """The next events, few enough for a socket's buffer, and the number of changes they are made of."""
        batch = self._ring.since(position, BATCH)
        if batch is None:
            return None
        parts: list[bytes] = []
        size = count = 0
        for change in batch:
            event = self._event(change)
            parts += event
            size += sum(map(len, event))
            count += 1
            if size >= SEND_BYTES:
                break
        return parts, count

    def _event(self, change: Change) -> Event:
        if change.version <= self._start.version:
            return ()
        seen = self._scope.sees(change)
        return _event(seen.encode(), self._renderer.watched(change.body)) if seen else ()

    def _bookmark(self, version: int, *, ends_initial: bool = False) -> Event:
        kind = self._renderer.kind
        metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
        if ends_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return _event(b"BOOKMARK", encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}))

    async def _send(self, send: Send, parts: Iterable[bytes]) -> None:
        """Sends in pieces: an object may have megabytes, and all watches share the ring's copy of it."""
        for piece in pieces(parts, SEND_BYTES):
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(type_: bytes, body: bytes) -> Event:
    return b'{"type":"' + type_ + b'","object":', body, b"}\n"


def _expired(version: int) -> Event:
    status = errors.expired(f"too old resource version: {version}").status()
    return _event(b"ERROR", encode(status))
