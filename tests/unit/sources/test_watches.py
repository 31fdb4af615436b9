"""ApiServerSources that run: what a change is to a source, and the event it makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.events.event import CloudEvent
from penstock.filters.parse import parse
from penstock.kube import list_watch
from penstock.kube.client import Listing
from penstock.kube.errors import Forbidden, Gone, NotFound, Unavailable
from penstock.resources.apiserversource import ApiServerSource
from penstock.resources.destinations import ResolvedAddress
from penstock.sources import deliveries
from penstock.sources.deliveries import NotAccepted
from penstock.sources.watch_plan import KnownObjects, WatchedObjects, WatchPlan, event_of
from penstock.sources.watches import WatchRunner
from tests.waiting import until

Obj = dict[str, Any]


def pod(name: str = "p", version: int = 1, labels: dict[str, str] | None = None, owner: str = "") -> Obj:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": labels or {}, "ownerReferences": owners},
        "spec": {"containers": []},
    }


def plan(sink: str = "http://sink", namespaces: tuple[str, ...] = ("ns",), **spec: Any) -> WatchPlan:
    spec = {"resources": [{"apiVersion": "v1", "kind": "Pod"}], **spec}
    source = ApiServerSource.read({"metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "spec": spec})
    return WatchPlan(source, namespaces, parse(None, source.filters), ResolvedAddress(sink), "https://api")


def test_a_reference_and_a_whole_object_are_told_as_knative_does() -> None:
    event = event_of(plan(ceOverrides={"extensions": {"shop": "north"}}), "add", pod(), "pods")
    assert event is not None
    wanted = {
        "type": "dev.knative.apiserver.ref.add",
        "source": "https://api",
        "subject": "/apis/v1/namespaces/ns/pods/p",
        "kind": "Pod",
        "apiversion": "v1",
        "name": "p",
        "namespace": "ns",
        "shop": "north",
        "datacontenttype": "application/json",
    }
    assert wanted.items() <= dict(event.attributes).items()
    assert json.loads(event.data or b"") == {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "ns"}
    whole = event_of(plan(mode="Resource"), "delete", pod(), "pods")
    assert whole is not None
    assert whole.type == "dev.knative.apiserver.resource.delete"
    assert json.loads(whole.data or b"") == pod()


def test_the_same_change_has_the_same_id() -> None:
    first, again = event_of(plan(), "add", pod(), "pods"), event_of(plan(), "add", pod(), "pods")
    other = event_of(plan(), "update", pod(version=2), "pods")
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.id == again.id != other.id


def test_a_filter_may_ask_for_what_the_event_says() -> None:
    named = {"data": {"name": {"prefix": "p"}}}
    assert event_of(plan(filters=[named]), "add", pod(), "pods") is not None
    assert event_of(plan(filters=[{"not": named}]), "add", pod(), "pods") is None


def test_owners_and_filters_choose() -> None:
    owned = plan(owner={"apiVersion": "apps/v1", "kind": "ReplicaSet"})
    assert event_of(owned, "add", pod(), "pods") is None
    assert event_of(owned, "add", pod(owner="StatefulSet"), "pods") is None
    assert event_of(owned, "add", pod(owner="ReplicaSet"), "pods") is not None
    filtered = plan(filters=[{"exact": {"type": "dev.knative.apiserver.ref.update"}}])
    assert event_of(filtered, "add", pod(), "pods") is None
    assert event_of(filtered, "update", pod(), "pods") is not None


def test_labels_that_come_and_go_are_additions_and_deletions() -> None:
    known = KnownObjects(lambda obj: "a" in obj["metadata"]["labels"])
    assert known.listed([pod("old", labels={"a": "1"}), pod("plain")]) == []
    told = [
        known.changed("MODIFIED", pod("old", 2, {"a": "1"})),
        known.changed("MODIFIED", pod("plain", 3)),
        known.changed("MODIFIED", pod("plain", 4, {"a": "1"})),
        known.changed("MODIFIED", pod("old", 5)),
        known.changed("DELETED", pod("old", 6)),
        known.changed("DELETED", pod("plain", 7, {"a": "1"})),
    ]
    assert [one and one[0] for one in told] == ["update", None, "add", "delete", None, "delete"]


def test_a_new_list_tells_what_was_missed() -> None:
    known = KnownObjects(lambda obj: True)
    known.listed([pod("same"), pod("gone"), pod("other", 2)])
    told = known.listed([pod("same"), pod("other", 9), pod("new", 8)])
    assert [(change, obj["metadata"]["name"]) for change, obj in told] == [
        ("delete", "gone"),
        ("update", "other"),
        ("add", "new"),
    ]


class Cluster:
    """An API that a test changes, and a sink."""

    def __init__(self) -> None:
        self.objects: list[Obj] = []
        self.taken: list[CloudEvent] = []
        self.changed: list[str] = []
        self.listed: list[str | None] = []
        self.failures: list[Exception] = []
        self.refuses = False
        self.too_large = ""
        """Name of the object that the sink does not want to hear of."""
        self._changes: asyncio.Queue[tuple[str, Obj] | Exception] = asyncio.Queue()

    async def listing(self, user: str, watched: WatchedObjects) -> Listing:
        await asyncio.sleep(0)
        self.listed.append(watched.namespace)
        if self.failures:
            raise self.failures.pop(0)
        return Listing(list(self.objects), "0")

    @contextlib.asynccontextmanager
    async def changes(
        self, user: str, watched: WatchedObjects, version: str
    ) -> AsyncIterator[AsyncIterator[tuple[str, Obj]]]:
        yield self._next()

    async def _next(self) -> AsyncIterator[tuple[str, Obj]]:
        while True:
            change = await self._changes.get()
            if isinstance(change, Exception):
                raise change
            yield change

    def plural(self, watched: WatchedObjects) -> str:
        return "pods"

    def happens(self, change: tuple[str, Obj] | Exception) -> None:
        self._changes.put_nowait(change)

    async def send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        await asyncio.sleep(0)
        if self.refuses:
            raise NotAccepted("503", 503)
        if event.attributes["name"] == self.too_large:
            raise NotAccepted("too large", 413)
        assert namespace == "ns"
        self.taken.append(event)

    @property
    def told(self) -> list[str]:
        return [f"{event.type.rpartition('.')[2]} {event.attributes['name']}" for event in self.taken]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def runner(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WatchRunner]:
    monkeypatch.setattr(list_watch, "LONGEST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(deliveries, "LONGEST_PAUSE_SECONDS", 0.001)
    one = WatchRunner(cluster, cluster.send, cluster.changed.append)
    task = asyncio.create_task(one.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_changes_are_told_what_was_there_is_not(cluster: Cluster, runner: WatchRunner) -> None:
    cluster.objects = [pod("old")]
    runner.put(plan())
    await until(lambda: runner.watching("u"), every=0.002)
    assert cluster.changed == ["u"]
    cluster.happens(("ADDED", pod("new", 2)))
    cluster.happens(("MODIFIED", pod("old", 3)))
    cluster.happens(("DELETED", pod("new", 4)))
    await until(lambda: cluster.told == ["add new", "update old", "delete new"], every=0.002)


async def test_a_watch_that_breaks_repeats_nothing_and_skips_nothing(cluster: Cluster, runner: WatchRunner) -> None:
    runner.put(plan())
    cluster.happens(("ADDED", pod("a", 2)))
    cluster.happens(Unavailable("connection lost"))
    await until(lambda: cluster.told == ["add a"], every=0.002)
    cluster.objects = [pod("a", 2), pod("b", 3)]
    cluster.happens(Gone("too old"))
    await until(lambda: cluster.told == ["add a", "add b"], every=0.002)


async def test_a_sink_that_is_down_is_waited_for_and_told(cluster: Cluster, runner: WatchRunner) -> None:
    cluster.refuses = True
    runner.put(plan())
    cluster.happens(("ADDED", pod("a", 2)))
    await until(lambda: runner.trouble("u") is not None, every=0.002)
    cluster.refuses = False
    await until(lambda: cluster.told == ["add a"] and runner.trouble("u") is None, every=0.002)


async def test_an_event_that_the_sink_never_takes_is_told_and_does_not_hold_the_others_up(
    cluster: Cluster, runner: WatchRunner
) -> None:
    cluster.too_large = "a"
    runner.put(plan())
    cluster.happens(("ADDED", pod("a", 2)))
    await until(lambda: "too large" in (runner.trouble("u") or ""), every=0.002)
    cluster.happens(("ADDED", pod("b", 3)))
    await until(lambda: cluster.told == ["add b"] and runner.trouble("u") is None, every=0.002)


async def test_what_may_not_be_watched_is_told_until_it_may(cluster: Cluster, runner: WatchRunner) -> None:
    cluster.failures = [Forbidden("pods is forbidden")]
    runner.put(plan())
    await until(lambda: runner.watching("u") and runner.problem("u") is None, every=0.002)
    assert len(cluster.changed) == 2


async def test_a_kind_that_is_not_served_does_not_hold_the_others_up(cluster: Cluster, runner: WatchRunner) -> None:
    cluster.failures = [NotFound("no such kind")] * 3
    runner.put(plan())
    await until(lambda: runner.watching("u"), every=0.002)
    assert runner.problem("u") is None


async def test_another_namespace_leaves_the_watches_of_the_others_alone(cluster: Cluster, runner: WatchRunner) -> None:
    runner.put(plan())
    await until(lambda: runner.watching("u"), every=0.002)
    runner.put(plan(namespaces=("ns", "two")))
    assert not runner.watching("u")
    await until(lambda: runner.watching("u"), every=0.002)
    assert cluster.listed == ["ns", "two"]
    runner.put(plan(namespaces=("two",)))
    assert runner.watching("u")


async def test_a_new_sink_keeps_the_watch_and_a_removed_source_has_none(cluster: Cluster, runner: WatchRunner) -> None:
    runner.put(plan())
    await until(lambda: runner.watching("u"), every=0.002)
    runner.put(plan("http://other"))
    assert runner.watching("u")
    runner.remove("u")
    assert not runner.watching("u")
    cluster.happens(("ADDED", pod("late", 5)))
    await asyncio.sleep(0)
    assert cluster.taken == []
