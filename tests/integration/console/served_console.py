"""A console with its real server, pages and history, over records and objects that are at hand: no Kafka, no Spark."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from penstock.console.app import application
from penstock.console.console import Console
from penstock.console.events.archive import Archive
from penstock.console.events.tails import Tails
from penstock.console.sessions import Sessions, TokenOwner
from penstock.contract import topics
from penstock.history.reader.history import History
from penstock.kafka.ranges import LogRecord
from penstock.operations.cluster_api import Resource
from penstock.runtime.sockets import bound_socket
from penstock.settings import Settings
from tests.waiting import eventually
from tests.written import KeptRecords, attempt, event

Obj = dict[str, Any]
EVENTING = "eventing.knative.dev/v1"
OWNER = TokenOwner("kubernetes-admin", True)


class Objects:
    """Stands in for the Kubernetes API. A Replay that is made runs at the first look, and is done at the next."""

    def __init__(self, *objects: Obj) -> None:
        self._lock = threading.Lock()
        self._objects = list(objects)
        self.created: list[Obj] = []

    def all(self, resource: Resource, namespace: str = "") -> list[Obj]:
        """The objects of a kind."""
        with self._lock:
            found = [obj for obj in self._objects if obj["kind"] == resource.kind]
            for replay in (obj for obj in found if obj["kind"] == "Replay"):
                replay["status"] = DONE if replay["status"] is RUNNING else RUNNING if not replay["status"] else DONE
            return found

    def create(self, resource: Resource, namespace: str, obj: Obj) -> Obj:
        """Keeps an object."""
        metadata = {"name": "orders-x7", "namespace": namespace, "creationTimestamp": "2026-11-17T12:00:00Z"}
        with self._lock:
            self.created.append(obj)
            self._objects.append({**obj, "metadata": metadata, "status": {}})
        return self._objects[-1]


RUNNING: Obj = {"startTime": "2026-11-17T12:00:00Z", "counted": 1, "sent": 0, "progress": "40%"}
DONE: Obj = {
    **RUNNING,
    "sent": 1,
    "completionTime": "2026-11-17T12:00:01Z",
    "conditions": [{"type": "Succeeded", "status": "True"}],
}


def named(kind: str, name: str, spec: Obj, status: Obj | None = None) -> Obj:
    """A Broker or Trigger."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": EVENTING, "kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}


def arrived(offset: int, ident: str, kind: str, data: bytes) -> LogRecord:
    """An event that came a minute ago, to the Broker `shop`."""
    made = event(offset, ident, kind=kind, data=data, trace=f"{offset:032x}")
    headers = [(name, b"uid-shop" if name == "penstock_target" else value) for name, value in made.headers]
    return made._replace(
        at_ms=int(time.time() * 1000) - 60_000 + offset * 10, headers=[*headers, ("content-type", b"application/json")]
    )


class Rush:
    """Five thousand events a second, for whoever follows."""

    def __init__(self) -> None:
        self._number = 10_000

    def poll(self, seconds: float) -> list[tuple[str, LogRecord]]:
        """What came meanwhile."""
        time.sleep(seconds)
        begun = self._number
        self._number += round(5000 * seconds)
        record = arrived(0, "", "order.live", b'{"total": 12.5}')
        return [(topics.EVENTS, _numbered(record, number)) for number in range(begun, self._number)]

    def leave_out(self, seconds: float) -> dict[str, int]:
        """What came meanwhile, by number alone."""
        time.sleep(seconds)
        self._number += round(5000 * seconds)
        return {topics.EVENTS: round(5000 * seconds)}


def _numbered(record: LogRecord, number: int) -> LogRecord:
    headers = [(name, f"live-{number}".encode() if name == "ce_id" else value) for name, value in record.headers]
    return record._replace(offset=number, headers=headers)


@contextlib.contextmanager
def rush(*_: str) -> Iterator[Rush]:
    """Follows them."""
    yield Rush()


def records() -> tuple[list[LogRecord], list[LogRecord]]:
    """Sixty orders that arrived, and one that was tried four times and given up."""
    data = b'{"order": 17, "lines": [{"sku": "a-1", "quantity": 2}, {"sku": "b-7", "quantity": 1}], "total": 12.50}'
    events = [arrived(number, f"order-{number}", "order.created", data) for number in range(60)]
    unlucky = arrived(60, "unlucky", "order.created", data)
    greeting = arrived(61, "hello", "greeting", b'{"hello": "world"}')
    begun = unlucky.at_ms / 1000
    attempts = [attempt(number, one, status=202, route="uid-orders") for number, one in enumerate(events)]
    for number, after in enumerate((0.05, 0.4, 1.1, 2.5), 1):
        told = {"at": begun + after, "attempt": number, "route": "uid-orders", "status": 503}
        result = "retry" if number < 4 else "dropped"
        attempts.append(attempt(100 + number, unlucky, result, **told, reason="HTTP status 503"))
    return [*events, unlucky, greeting], attempts


class ServedConsole:
    """A console that listens, in a thread of its own."""

    def __init__(self, folder: Path, subscriber: str) -> None:
        address = {"address": {"url": subscriber}, "conditions": [{"type": "Ready", "status": "True"}]}
        to = {"broker": "shop", "subscriber": {"uri": subscriber}}
        self.objects = Objects(
            named("Broker", "shop", {}, address),
            named("Trigger", "orders", {**to, "filters": [{"prefix": {"type": "order"}}]}),
            named("Trigger", "invoices", {**to, "filters": [{"exact": {"type": "invoice"}}]}),
        )
        self._listener = bound_socket("127.0.0.1", 0)
        port = self._listener.getsockname()[1]
        self.settings = Settings(data_dir=folder, metrics=False, partitions=1, console_port=port)
        self.url = self.settings.console_url.rstrip("/")
        self.login = ""
        """A link that signs in, once."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        eventually(lambda: self.login)

    async def _serve(self) -> None:
        stopping = asyncio.Event()
        console = Console(self.settings, stopping)
        console.api_of = lambda token: self.objects  # type: ignore[assignment,method-assign,return-value]  # stands in
        self.login = f"{self.url}/login/links/{console.links.make('token', OWNER, None, 600)}"
        console.owner_of = lambda token: OWNER  # type: ignore[method-assign]  # so does this
        console.sessions = Sessions(self.settings.console_port, console.owner_of)
        app = application(console)
        events, attempts = records()
        app.state.events.archive = Archive(
            lambda: History(self.settings, lambda _: KeptRecords(events=events, attempts=attempts))
        )
        app.state.events.tails = Tails(rush, stopping)
        self._server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        while not serving.done():
            await asyncio.wait({serving}, timeout=0.2)
            if self._server.should_exit:
                stopping.set()
        await app.state.events.close()

    def close(self) -> None:
        """Ends it."""
        self._server.should_exit = True
        self._thread.join(60)
