"""Kubernetes Events, as shown by `kubectl describe`.

They are written in the background and never delay a reconciler; when too many wait, the newest are dropped. A repeated
Event only increases the `count` of the first one.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Literal

import structlog

from penstock.kube.client import AsyncClient
from penstock.kube.errors import Conflict, KubeError
from penstock.kube.kinds import EVENT, Obj
from penstock.observability.logs import describe
from penstock.runtime.times import rfc3339

log = structlog.get_logger()

COMPONENT = "penstock-controller"
MOST_WAITING = 1000
MOST_REMEMBERED = 4096


class EventRecorder:
    """Writes Events about objects."""

    def __init__(self, api: AsyncClient) -> None:
        self._api = api
        self._waiting: asyncio.Queue[Obj] = asyncio.Queue(MOST_WAITING)
        self._written: dict[str, Obj] = {}

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        """Records an Event of type Normal."""
        self._record(obj, "Normal", reason, message)

    def warning(self, obj: Obj, reason: str, message: str) -> None:
        """Records an Event of type Warning."""
        self._record(obj, "Warning", reason, message)

    async def run(self) -> None:
        """Writes Events until cancelled."""
        while True:
            event = await self._waiting.get()
            try:
                await self._write(event)
            except KubeError as error:
                log.debug("an Event could not be written", reason=event["reason"], error=describe(error))

    def _record(self, obj: Obj, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        try:
            self._waiting.put_nowait(event_about(obj, kind, reason, message, rfc3339()))
        except asyncio.QueueFull:
            log.warning("an Event was dropped: too many wait", reason=reason, object=obj["metadata"]["name"])

    async def _write(self, event: Obj) -> None:
        name = event["metadata"]["name"]
        held = self._written.get(name)
        try:
            if held is None:
                written = await self._api.create(EVENT, event)
            else:
                again = {**held, "count": held.get("count", 1) + 1, "lastTimestamp": event["lastTimestamp"]}
                written = await self._api.replace(EVENT, again)
        except KubeError as error:
            self._written.pop(name, None)
            if isinstance(error, Conflict):
                return
            raise
        if len(self._written) >= MOST_REMEMBERED:
            self._written.pop(next(iter(self._written)))
        self._written[name] = written


def event_about(obj: Obj, kind: str, reason: str, message: str, now: str) -> Obj:
    """The Event; its name is the same for the same object, reason and message."""
    metadata = obj["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']}/{reason}/{message}".encode()).hexdigest()[:16]
    namespace = metadata.get("namespace") or "default"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name'][:200]}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "namespace": namespace,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
