"""The life of one Pod on this node, from its creation to its deletion.

```
seen --> address taken --> init containers, one after the other --> containers, all at once --> Succeeded | Failed
deletionTimestamp --> stop within the grace period --> removed from the API
```
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from penstock.kube.errors import KubeError
from penstock.observability.logs import describe
from penstock.resources.metadata import NODE_NAME, POD_PORTS
from penstock.runtime.files import path_below
from penstock.runtime.times import rfc3339
from penstock.workloads.images import Actor, Program, Run
from penstock.workloads.kubernetes import Manifest
from penstock.workloads.pods import addresses, containerlife
from penstock.workloads.pods.containerlife import ContainerLife
from penstock.workloads.pods.podstatus import Container, lost_status, running_status
from penstock.workloads.pods.preparation import Node, Preparation
from penstock.workloads.processes import probes, volumes
from penstock.workloads.processes.environment import ConfigError

log = structlog.get_logger()

WRITE_RETRY_SECONDS = 1.0
REFRESH_SECONDS = 60.0
DEFAULT_GRACE_SECONDS = 30.0


@dataclass
class RecordedWarning:
    """A warning that was recorded as an Event. Repetitions increase its count, with a back-off, as in Kubernetes."""

    name: str
    """The name of the Event."""
    count: int = 0
    due: float = 0.0
    """When it may be recorded again."""


class PodLife:
    """One Pod."""

    def __init__(self, pod: Manifest, node: Node) -> None:
        self.pod = pod
        self.deleting = False
        self.stopping = asyncio.Event()
        self._node = node
        self._address: addresses.PodAddress | None = None
        self._lives: list[ContainerLife] = []
        self._preparation: Preparation | None = None
        self._started = rfc3339()
        self._written = asyncio.Lock()
        self._warnings: dict[tuple[str, str], RecordedWarning] = {}

    @property
    def title(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def stop(self, grace: float) -> None:
        """Stops the containers within `grace` seconds; `run` then returns."""
        self.stopping.set()
        for life in self._lives:
            life.stop(grace)

    async def run(self) -> None:
        """Runs until the containers have ended permanently or the Pod is stopped."""
        if _was_running(self.pod) and self.pod["spec"].get("restartPolicy") == "Never":
            await self._node.api.write_status(self.pod, lost_status(self.pod, rfc3339()))
            return
        try:
            await self._live()
        finally:
            if self._address:
                self._address.close()

    def forget(self) -> None:
        """Removes the files of the Pod."""
        shutil.rmtree(self._logs(), ignore_errors=True)
        shutil.rmtree(self._node.surroundings.folder_of(self.pod), ignore_errors=True)

    async def _live(self) -> None:
        if not self.pod["spec"].get("nodeName"):
            await self._node.api.bind(self.pod)
            await self.record_event("Scheduled", f"Successfully assigned {self.title} to {NODE_NAME}")
        self._address = addresses.claim(self.pod["metadata"].get("uid") or self.title)
        self.pod.setdefault("status", {}).update({"podIP": self._address.ip, "hostIP": addresses.SHARED})
        self._logs().mkdir(parents=True, exist_ok=True)
        self._preparation = Preparation(self.pod, self._node, self._logs(), self._address)
        inits, mains = self._create_containers()
        keeping = asyncio.create_task(self._keep_files_fresh())
        try:
            for init in inits:
                if not await init.run():
                    return
            await asyncio.gather(*(life.run() for life in mains))
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep_files_fresh(self) -> None:
        """Updates the volumes from their ConfigMaps and Secrets. After one is deleted, its last content stays."""
        preparation, spec = self._preparation, self.pod["spec"]
        if preparation is None or not any(volumes.changes(one) for one in spec.get("volumes") or ()):
            return
        while await self.pause(REFRESH_SECONDS):
            for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
                try:
                    await preparation.refresh(container)
                except ConfigError:
                    continue
                except (KubeError, OSError, ValueError) as error:
                    log.warning("a Pod's volumes could not be refreshed", pod=self.title, error=describe(error))

    def _create_containers(self) -> tuple[list[ContainerLife], list[ContainerLife]]:
        spec, status = self.pod["spec"], self.pod["status"]
        known = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        again = 1 if _was_running(self.pod) else 0
        counts = {one["name"]: int(one.get("restartCount", 0)) + again for one in known}

        def create(container: Manifest, init: bool) -> ContainerLife:
            image = self._node.images.find(container.get("image") or "", self.pod["metadata"]["namespace"])
            return ContainerLife(self, container, image, restarts=counts.get(container["name"], 0), init=init)

        inits = [create(container, True) for container in spec.get("initContainers") or ()]
        mains = [create(container, False) for container in spec.get("containers") or ()]
        self._lives = [*inits, *mains]
        return inits, mains

    async def prepare(self, spec: Manifest, image: Actor | Program) -> Run:
        """See `Home`."""
        assert self._preparation is not None  # noqa: S101  # made before any container lives
        moved = self._preparation.moved_ports
        run = await self._preparation.run(spec, image)
        if self._preparation.moved_ports != moved:
            pairs = (f"{port}={actual}" for port, actual in self._preparation.moved_ports.items())
            await self._node.api.annotate(self.pod, POD_PORTS, ",".join(pairs))
        return run

    def check(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> Callable[[], Awaitable[str | None]]:
        """See `Home`."""
        assert self._preparation is not None  # noqa: S101  # made before any container lives
        return self._preparation.check(spec, image, probe)

    async def change(self, container: Container) -> None:
        """See `Home`."""
        async with self._written:
            ip = self._address.ip if self._address else ""
            states = [life.state for life in self._lives]
            status = running_status(self.pod, states, ip, self._started, rfc3339())
            self.pod["status"] = {**(self.pod.get("status") or {}), **status}
            await self._write(status)

    async def _write(self, status: Manifest) -> None:
        """Writes the status, with retries while the API is unreachable. The containers continue."""
        while True:
            try:
                await self._node.api.write_status(self.pod, status)
            except KubeError as error:
                log.warning("a Pod's status could not be written; trying again", pod=self.title, error=describe(error))
            else:
                return
            await self._sleep(WRITE_RETRY_SECONDS)
            if self.stopping.is_set():
                return

    async def record_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Records an Event of the node. Errors are logged."""
        now = asyncio.get_running_loop().time()
        known = self._warnings.get((reason, message)) if warning else None
        if known is None:
            known = RecordedWarning(f"{self.pod['metadata']['name']}.{secrets.token_hex(8)}")
        elif now < known.due:
            return
        known.count += 1
        known.due = now + containerlife.back_off(known.count)
        if warning:
            self._warnings[reason, message] = known
        try:
            if known.count > 1 and await self._node.api.recount(self.pod, known.name, known.count):
                return
            await self._node.api.record(
                self.pod, name=known.name, reason=reason, message=message[:1024], warning=warning, count=known.count
            )
        except KubeError as error:
            log.warning("an Event of a Pod could not be written", pod=self.title, reason=reason, error=describe(error))

    async def pause(self, seconds: float) -> bool:
        """Waits; False if the Pod is being stopped."""
        await self._sleep(seconds)
        return not self.stopping.is_set()

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    def _logs(self) -> Path:
        return log_folder(self._node.log_dir, self.pod)


def log_folder(logs: Path, pod: Mapping[str, Any]) -> Path:
    """The folder of the logs of a Pod."""
    return path_below(logs, pod["metadata"]["namespace"], pod["metadata"]["name"])


def _was_running(pod: Mapping[str, Any]) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")
