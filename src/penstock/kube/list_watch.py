"""List and watch: every object of a kind, then every change.

A watch that breaks is resumed where it ended. One that is too old (410 Gone) is replaced by a new list; so is one of a
kind that was not found or not allowed, because it may be another kind when it is available again. While the API is
unavailable, requests are retried with increasing pauses.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.kube.client import Change, Listing
from penstock.kube.errors import Forbidden, Gone, KubeError, MethodNotAllowed, NotFound
from penstock.kube.kinds import Obj
from penstock.runtime.rate_limit import pause_after

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

GetList = Callable[[], Awaitable[Listing]]
OpenWatch = Callable[[str], AbstractAsyncContextManager[AsyncIterator[Change]]]
"""Opens a watch of what happened after a resource version."""


@dataclass(frozen=True)
class Listed:
    """All objects. Earlier ones that are missing have been deleted."""

    objects: list[Obj]
    version: str


@dataclass(frozen=True)
class Changed:
    """A change of one object."""

    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    obj: Obj


@dataclass(frozen=True)
class Interrupted:
    """List or watch failed and is retried. The objects seen so far remain the latest known."""

    error: KubeError


async def list_and_watch(get_list: GetList, open_watch: OpenWatch) -> AsyncIterator[Listed | Changed | Interrupted]:
    """Begins with a list, and never ends. The next change is read only when the caller asks for it."""
    version: str | None = None
    failures = 0
    while True:
        try:
            if version is None:
                listing = await get_list()
                yield Listed(*listing)
                version, failures = listing.version, 0
            async with open_watch(version) as changes:
                failures = 0
                async for kind, obj in changes:
                    yield Changed(kind, obj)
                    version = str(obj["metadata"]["resourceVersion"])
        except Gone:
            version = None
        except KubeError as error:
            failures += 1
            yield Interrupted(error)
            if isinstance(error, NotFound | Forbidden | MethodNotAllowed):
                version = None
            pause = pause_after(failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # spreads reconnects, no secret
