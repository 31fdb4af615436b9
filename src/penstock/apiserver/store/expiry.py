"""Expiry of Events: as on a cluster, they are removed an hour after they were last seen."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta

import structlog

from penstock.apiserver.documents import decode, meta
from penstock.apiserver.errors import ApiError
from penstock.apiserver.store.storage import ListPage, Store, Transaction
from penstock.kube.kinds import Obj
from penstock.observability.logs import describe
from penstock.runtime.times import parse_rfc3339

log = structlog.get_logger(__name__)

EVENT_LIFETIME = timedelta(hours=1)
ROUND_SECONDS = 60.0
_RESOURCE = "events"


async def expire_forever(store: Store) -> None:
    """Removes old events every minute, until cancelled."""
    while True:
        try:
            await expire(store, datetime.now(UTC))
        except (ApiError, sqlite3.Error) as error:
            # A full disk, for example; the next round tries again.
            log.warning("expired Events could not be removed", error=describe(error))
        await asyncio.sleep(ROUND_SECONDS)


async def expire(store: Store, now: datetime) -> int:
    """Removes the Events that have expired, and returns how many."""
    count = 0
    async for page in store.parts(_RESOURCE, None, keep=lambda body: is_expired(decode(body), now)):
        count += await _remove(store, page, now)
    return count


async def _remove(store: Store, page: ListPage, now: datetime) -> int:
    old = [(meta(event)["namespace"], meta(event)["name"]) for event in map(decode, page.bodies)]

    def remove(tx: Transaction) -> int:
        count = 0
        for namespace, name in old:
            event = tx.get(_RESOURCE, namespace, name)
            # It may have been seen again since the list was read.
            if event is not None and is_expired(event, now):
                tx.remove(_RESOURCE, event)
                count += 1
        return count

    return await store.write(remove) if old else 0


def is_expired(event: Obj, now: datetime) -> bool:
    """Whether the Event was last seen more than EVENT_LIFETIME ago."""
    times = [meta(event).get("creationTimestamp"), event.get("lastTimestamp"), event.get("eventTime")]
    times.append((event.get("series") or {}).get("lastObservedTime"))
    seen = [moment for moment in map(_moment, times) if moment is not None]
    return bool(seen) and now - max(seen) > EVENT_LIFETIME


def _moment(text: object) -> datetime | None:
    try:
        return parse_rfc3339(str(text))
    except ValueError:
        return None
