"""Which Pods the node begins, stops and removes, as the API tells it. The API is one that only remembers."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.kube.errors import Unavailable
from penstock.resources.pod_rules import LONGEST_SUBDOMAIN
from penstock.workloads.images import Images
from penstock.workloads.kubernetes import Manifest, PodApi, PodChange, PodList
from penstock.workloads.pods import containerlife, podlife
from penstock.workloads.pods import node as nodes
from penstock.workloads.pods.node import Pods
from penstock.workloads.pods.podlife import PodLife
from penstock.workloads.pods.preparation import Node, Preparation
from penstock.workloads.processes.environment import ConfigError
from penstock.workloads.processes.node_context import NodeContext


class RememberingApi:
    """Takes every call, fails the first removals where asked to."""

    def __init__(self, failures: int = 0) -> None:
        self.statuses: dict[str, list[Manifest]] = {}
        self.removed: list[str] = []
        self.events: dict[str, int] = {}
        self._failures = failures

    async def write_status(self, pod: Manifest, status: Manifest) -> None:
        self.statuses.setdefault(pod["metadata"]["name"], []).append(status)

    async def bind(self, pod: Manifest) -> None:
        return None

    async def review(self, token: str, audience: str) -> Manifest | None:
        return None

    async def record(self, pod: Manifest, *, name: str, count: int = 1, **_: Any) -> None:
        self.events[name] = count

    async def recount(self, pod: Manifest, name: str, count: int) -> bool:
        if name in self.events:
            self.events[name] = count
        return name in self.events

    async def remove(self, pod: Manifest) -> None:
        if self._failures:
            self._failures -= 1
            raise Unavailable("no API")
        self.removed.append(pod["metadata"]["name"])


def pod(name: str, **more: Any) -> Manifest:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **more.pop("metadata", {})}
    spec = {"containers": [{"name": "main", "image": "nginx"}], **more.pop("spec", {})}
    return {"metadata": metadata, "spec": spec, **more}


def pods_on(api: RememberingApi, tmp_path: Path) -> Pods:
    nothing = cast(Any, None)
    node = Node(cast(PodApi, api), nothing, nothing, tmp_path, Images({}), NodeContext(tmp_path))
    return Pods(node)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_pod_with_the_longest_name_that_there_may_be_keeps_no_other_from_running(tmp_path: Path) -> None:
    pods = pods_on(api := RememberingApi(), tmp_path)
    pods.take(PodList([pod("a" * LONGEST_SUBDOMAIN, metadata={"uid": str(uuid.uuid4())}), pod("web")]))
    await settle()
    assert set(api.statuses) == {"a" * LONGEST_SUBDOMAIN, "web"}
    await pods.stop(0)


async def test_a_pod_is_begun_once(tmp_path: Path) -> None:
    api = RememberingApi()
    pods = pods_on(api, tmp_path)
    pods.take(PodList([pod("web")]))
    pods.take(PodChange("present", pod("web")))
    await settle()
    assert len(pods) == 1
    assert [status["phase"] for status in api.statuses["web"]] == ["Pending"]
    await pods.stop(0)


@pytest.mark.parametrize(
    "other",
    [
        pod("done", status={"phase": "Succeeded"}),
        pod("crashed", status={"phase": "Failed"}),
        pod("elsewhere", spec={"nodeName": "another"}),
    ],
    ids=lambda other: str(other["metadata"]["name"]),
)
async def test_pods_that_are_over_or_elsewhere_are_left_alone(tmp_path: Path, other: Manifest) -> None:
    api = RememberingApi()
    pods = pods_on(api, tmp_path)
    pods.take(PodList([other]))
    await settle()
    assert (len(pods), api.statuses) == (0, {})


@pytest.mark.parametrize("seen_before", [True, False])
async def test_a_deleted_pod_is_removed_once_it_has_stopped(tmp_path: Path, seen_before: bool) -> None:
    api = RememberingApi()
    pods = pods_on(api, tmp_path)
    if seen_before:
        pods.take(PodChange("present", pod("web")))
        await settle()
    leaving = pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0})
    pods.take(PodChange("present", leaving))
    pods.take(PodChange("present", leaving))
    await settle()
    assert api.removed == ["web"]
    pods.take(PodChange("gone", leaving))
    assert len(pods) == 0


async def test_a_completed_pod_can_be_deleted_after_a_restart_of_the_node(tmp_path: Path) -> None:
    api = RememberingApi()
    pods = pods_on(api, tmp_path)
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    pods.take(PodList([pod("done", status={"phase": "Succeeded"}, metadata=deleted)]))
    await settle()
    assert api.removed == ["done"]


async def test_a_removal_is_tried_until_the_api_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "AGAIN_SECONDS", 0.0)
    api = RememberingApi(failures=3)
    pods = pods_on(api, tmp_path)
    pods.take(PodChange("present", pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})))
    await settle()
    assert api.removed == ["web"]


async def test_what_a_new_list_does_not_name_is_gone(tmp_path: Path) -> None:
    pods = pods_on(RememberingApi(), tmp_path)
    pods.take(PodList([pod("one"), pod("two")]))
    pods.take(PodList([pod("two")]))
    assert len(pods) == 1
    await pods.stop(0)
    assert len(pods) == 0


def life_on(api: RememberingApi, tmp_path: Path) -> PodLife:
    nothing = cast(Any, None)
    return PodLife(pod("web"), Node(cast(PodApi, api), nothing, nothing, tmp_path, Images({}), nothing))


async def test_a_complaint_that_repeats_is_counted_in_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containerlife, "FIRST_SECONDS", 0.0)
    api = RememberingApi()
    life = life_on(api, tmp_path)
    for _ in range(3):
        await life.record_event("Failed", "no such file", warning=True)
    assert list(api.events.values()) == [3]
    api.events.clear()  # as Events are after an hour
    await life.record_event("Failed", "no such file", warning=True)
    assert list(api.events.values()) == [4]


async def test_a_complaint_that_comes_too_soon_is_not_told_again(tmp_path: Path) -> None:
    api = RememberingApi()
    life = life_on(api, tmp_path)
    for _ in range(3):
        await life.record_event("Failed", "no such file", warning=True)
    await life.record_event("Failed", "another", warning=True)
    assert list(api.events.values()) == [1, 1]


async def test_the_volumes_of_a_pod_are_refreshed_while_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def refresh(self: Preparation, spec: Manifest) -> None:
        asked.append(spec["name"])
        raise ConfigError("gone") if len(asked) == 1 else OSError("no API")

    monkeypatch.setattr(podlife, "REFRESH_SECONDS", 0.001)
    monkeypatch.setattr(Preparation, "refresh", refresh)
    pods = pods_on(RememberingApi(), tmp_path)
    pods.take(PodList([pod("web", spec={"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), pod("bare")]))
    for _ in range(500):
        await asyncio.sleep(0.002)
        if len(asked) > 2:
            break
    await pods.stop(0)
    assert set(asked) == {"main"}, "of the Pod that has such volumes, and whatever became of the last time"
    before = len(asked)
    await asyncio.sleep(0.01)
    assert len(asked) == before
