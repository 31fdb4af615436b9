"""The Pods of the node: started, stopped and removed as the API says. Their logs are kept short."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import structlog

from penstock.kube.errors import KubeError
from penstock.observability.logs import describe
from penstock.resources.metadata import NODE_NAME
from penstock.workloads.kubernetes import Manifest, PodChange, PodList
from penstock.workloads.pods.podlife import DEFAULT_GRACE_SECONDS, PodLife, log_folder
from penstock.workloads.pods.preparation import Node

log = structlog.get_logger()

ENDED = ("Succeeded", "Failed")
AGAIN_SECONDS = 2.0


class Pods:
    """The Pods of this node by uid."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lives: dict[str, tuple[PodLife, asyncio.Task[None]]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._lives)

    def take(self, news: PodList | PodChange) -> None:
        """Applies a change from the API."""
        if isinstance(news, PodList):
            present = {_uid(pod) for pod in news.pods}
            remove_leftovers(self._node, news.pods)
            for uid in [uid for uid in self._lives if uid not in present]:
                self._gone(uid)
            for pod in news.pods:
                self._present(pod)
        elif news.kind == "gone":
            self._gone(_uid(news.pod))
        else:
            self._present(news.pod)

    async def stop(self, grace: float) -> None:
        """Stops all Pods with the node. They stay in the API and are started again with the node."""
        for life, _ in self._lives.values():
            life.stop(grace)
        tasks = [*(task for _, task in self._lives.values()), *self._leaving]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace + 1)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._lives.clear()

    def _present(self, pod: Manifest) -> None:
        uid, metadata = _uid(pod), pod["metadata"]
        known = self._lives.get(uid)
        if metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds")
            self._delete(uid, pod, DEFAULT_GRACE_SECONDS if grace is None else float(grace))
        elif known is None and _is_ours(pod):
            self._begin(uid, PodLife(pod, self._node))
        elif known is not None:
            known[0].pod["metadata"] = metadata

    def _begin(self, uid: str, life: PodLife) -> None:
        task = asyncio.get_running_loop().create_task(self._guard(life), name=f"pod {life.title}")
        self._lives[uid] = (life, task)

    async def _guard(self, life: PodLife) -> None:
        """Runs a Pod, with retries after errors such as an unreachable API."""
        while True:
            try:
                await life.run()
            except Exception:  # an error of one Pod must not stop the others
                log.exception("a Pod could not be run; trying again", pod=life.title)
            else:
                return
            if not await life.pause(AGAIN_SECONDS):
                return

    def _delete(self, uid: str, pod: Manifest, grace: float) -> None:
        known = self._lives.get(uid)
        if known is None:
            if _is_ours(pod) or (pod.get("status") or {}).get("phase") in ENDED:
                life = PodLife(pod, self._node)
                life.deleting = True
                self._lives[uid] = (life, asyncio.get_running_loop().create_task(self._remove(life, None)))
            return
        life, task = known
        if not life.deleting:
            life.deleting = True
            life.stop(grace)
            self._lives[uid] = (life, asyncio.get_running_loop().create_task(self._remove(life, task)))

    async def _remove(self, life: PodLife, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait({running})
        while True:
            try:
                await self._node.api.remove(life.pod)
            except KubeError as error:
                log.warning("a stopped Pod could not be removed; trying again", pod=life.title, error=describe(error))
            else:
                return
            await asyncio.sleep(AGAIN_SECONDS)

    def _gone(self, uid: str) -> None:
        known = self._lives.pop(uid, None)
        if known is not None:
            life, task = known
            life.stop(0)
            leaving = asyncio.get_running_loop().create_task(self._leave(life, task))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _leave(self, life: PodLife, task: asyncio.Task[None]) -> None:
        await asyncio.wait({task})
        await asyncio.to_thread(life.forget)


def remove_leftovers(node: Node, pods: list[Manifest]) -> None:
    """Removes folders of Pods that were deleted while the node was not running."""
    kept = {node.surroundings.folder_of(pod) for pod in pods} | {log_folder(node.log_dir, pod) for pod in pods}
    for parent in (node.surroundings.data_dir / "pods", node.log_dir):
        for folder in parent.glob("*/*"):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)


def _uid(pod: Manifest) -> str:
    metadata = pod["metadata"]
    return str(metadata.get("uid") or f"{metadata['namespace']}/{metadata['name']}")


def _is_ours(pod: Manifest) -> bool:
    """Whether this node runs the Pod: it has not ended and is not assigned to another node."""
    spec: dict[str, Any] = pod.get("spec") or {}
    ended = (pod.get("status") or {}).get("phase") in ENDED
    return not ended and spec.get("nodeName") in (None, "", NODE_NAME)


LIMIT_BYTES, KEPT_BYTES = 10 * 1024 * 1024, 1024 * 1024
EVERY_SECONDS = 10.0
NOTE = b"[the log was longer than 10 MiB; what came before was dropped]\n"


async def trim_logs(logs: Path) -> None:
    """Trims the logs regularly; never returns."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        await asyncio.to_thread(trim_all, logs)


def trim_all(logs: Path, limit: int = LIMIT_BYTES, kept: int = KEPT_BYTES) -> None:
    """Trims every log above the limit to its end, so that no program fills the disk."""
    for path in logs.glob("*/*/*.log"):
        try:
            if path.stat().st_size > limit:
                _cut(path, kept)
        except FileNotFoundError:
            continue  # its Pod was deleted


def _cut(path: Path, kept: int) -> None:
    """Trims the file in place, because the program continues to append to it."""
    with path.open("r+b") as file:
        file.seek(-kept, 2)
        end = file.read()
        file.truncate(0)
    with path.open("ab") as file:
        file.write(NOTE + end.partition(b"\n")[2])
