"""The life of one Pod on this node, from the moment it is seen to the moment it is gone.

```
seen --> image unknown --> Pending, with the reason
     \\-> address taken --> per container: run --> ended --restartPolicy--> back-off --> run
                                                      \\--> Succeeded | Failed
deletionTimestamp --> stop within the grace period --> removed from the API
```
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from pyreqwest.client import Client

from penstock.observability.logs import describe
from penstock.timestamps import rfc3339
from penstock.workloads import addresses, restarts
from penstock.workloads.actors.options import BrokenEnvironment, read_options
from penstock.workloads.actors.program import PORT, ActorEnvironment, Exit, Program
from penstock.workloads.actors.reporting import REASON, PodLog, Reports
from penstock.workloads.actors.sender import Locate
from penstock.workloads.environment import ConfigError, environment, references
from penstock.workloads.images import Image, known_image, refusal
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.podstatus import (
    NODE_NAME,
    Container,
    Running,
    Terminated,
    Waiting,
    lost_status,
    refused_status,
    running_status,
)

log = structlog.get_logger()

CONFIG_RETRY_SECONDS = 5.0
WRITE_RETRY_SECONDS = 1.0
DEFAULT_GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Node:
    """What all Pods of the node share."""

    api: PodApi
    client: Client
    locate: Locate
    log_dir: Path


class PodLife:
    """One Pod."""

    def __init__(self, pod: Manifest, node: Node) -> None:
        self.pod = pod
        self.deleting = False
        self._node = node
        self._containers: list[Container] = []
        self._programs: dict[str, Program] = {}
        self._listener: socket.socket | None = None
        self._ip, self._port = "", PORT
        self._started = rfc3339()
        self._stopping = asyncio.Event()
        self._grace = DEFAULT_GRACE_SECONDS
        self._written = asyncio.Lock()
        self._log: PodLog | None = None

    @property
    def title(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def stop(self, grace: float) -> None:
        """Ends the containers within `grace` seconds; `run` returns then."""
        self._grace = grace
        self._stopping.set()
        for program in self._programs.values():
            program.stop(grace)

    async def run(self) -> None:
        """Lives until the containers have ended for good or the Pod is stopped."""
        spec = self.pod.get("spec") or {}
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        images = [known_image(container.get("image") or "") for container in containers]
        if spec.get("initContainers") or not containers or None in images:
            await self._refuse([container.get("image") or "" for container in containers])
            return
        if _was_running(self.pod) and spec.get("restartPolicy") == "Never":
            await self._node.api.write_status(self.pod, lost_status(self.pod, rfc3339()))
            return
        try:
            await self._live(containers, [image for image in images if image])
        finally:
            if self._listener:
                self._listener.close()
            if self._log:
                self._log.close()

    def forget(self) -> None:
        """Removes what the Pod leaves behind on this node."""
        self._log_path().unlink(missing_ok=True)

    async def _refuse(self, images: list[str]) -> None:
        message = refusal(images)
        await self._node.api.write_status(self.pod, refused_status(self.pod, message, rfc3339()))
        await self._tell("FailedScheduling", message, warning=True)

    async def _live(self, containers: list[Manifest], images: list[Image]) -> None:
        self._log = PodLog(self._log_path())
        if not (self.pod.get("spec") or {}).get("nodeName"):
            await self._node.api.bind(self.pod)
            await self._tell("Scheduled", f"Successfully assigned {self.title} to {NODE_NAME}")
        self._listener = addresses.listen(self.pod["metadata"].get("uid") or self.title, PORT)
        self._ip, self._port = self._listener.getsockname()
        if self._port != PORT:
            await self._node.api.annotate(self.pod, addresses.ANNOTATION, f"{PORT}={self._port}")
        self.pod.setdefault("status", {}).update({"podIP": self._ip, "hostIP": addresses.SHARED})
        before = {status["name"]: status for status in self.pod["status"].get("containerStatuses") or ()}
        restarted = _was_running(self.pod)
        self._containers = []
        for container in containers:
            count = int(before.get(container["name"], {}).get("restartCount", 0)) + (1 if restarted else 0)
            self._containers.append(Container(container["name"], container["image"], restarts=count))
        lives = [self._container(index, *pair) for index, pair in enumerate(zip(containers, images, strict=True))]
        await asyncio.gather(*lives)

    async def _container(self, index: int, container: Manifest, image: Image) -> None:
        policy = (self.pod.get("spec") or {}).get("restartPolicy") or "Always"
        failures = 0
        while not self._stopping.is_set():
            started, began = rfc3339(), asyncio.get_running_loop().time()
            ended = await self._run_once(index, container, image, started)
            if self._stopping.is_set():
                return
            if asyncio.get_running_loop().time() - began > restarts.FORGIVEN_SECONDS:
                failures = 0
            failures += 1
            last = Terminated(ended.code, started, rfc3339(), ended.message)
            if not restarts.restarts(policy, ended.code):
                await self._change(index, state=last)
                return
            await self._back_off(index, container, last, failures)

    async def _back_off(self, index: int, container: Manifest, last: Terminated, failures: int) -> None:
        pause = restarts.back_off(failures)
        metadata = self.pod["metadata"]
        message = restarts.waiting_message(
            pause, container["name"], metadata["name"], metadata["namespace"], metadata.get("uid", "")
        )
        await self._change(index, state=Waiting("CrashLoopBackOff", message), last=last)
        await self._tell("BackOff", f"Back-off restarting failed container {container['name']}", warning=True)
        await self._sleep(pause)
        self._containers[index] = replace(self._containers[index], restarts=self._containers[index].restarts + 1)

    async def _run_once(self, index: int, container: Manifest, image: Image, started: str) -> Exit:
        env = await self._environment(index, container)
        if env is None:
            return Exit(0)
        assert self._log is not None  # noqa: S101  # opened before any container starts
        try:
            wanted = read_options(image, {"POD_NAME": self.pod["metadata"]["name"], **env})
        except BrokenEnvironment as broken:
            self._log.write(f"failed to process the environment: {broken}")
            return Exit(1, str(broken))
        reports = Reports(wanted.common, self._log, self._record)
        program = Program(
            wanted, ActorEnvironment(self._node.client, self._node.locate, reports, self._listener_for(wanted.receiver))
        )
        self._programs[container["name"]] = program
        if self._stopping.is_set():
            return Exit(143)
        ready = asyncio.Event()
        running, serving = asyncio.create_task(program.run(ready.set)), asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({running, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._change(index, state=Running(started))
                await self._tell("Started", f"Started container {container['name']}")
            ended = await asyncio.shield(running)
        finally:
            serving.cancel()
            if not running.done():  # the life was cut off: the program must not outlive it
                program.stop(0)
                await asyncio.wait({running})
        if ended.message:
            self._log.write(ended.message)
        return ended

    async def _environment(self, index: int, container: Manifest) -> dict[str, str] | None:
        """The container's environment; waits while something it refers to is missing. None when stopped meanwhile."""
        while not self._stopping.is_set():
            found = {
                (kind, name): await self._node.api.value(self.pod, kind, name) for kind, name in references(container)
            }
            try:
                return environment(self.pod, container, partial(_entry, found))
            except ConfigError as error:
                await self._change(index, state=Waiting("CreateContainerConfigError", str(error)))
                await self._tell("Failed", f"Error: {error}", warning=True)
                await self._sleep(CONFIG_RETRY_SECONDS)
        return None

    def _listener_for(self, receives: object) -> Callable[[], socket.socket | None]:
        if not receives and self._listener and len(self._containers) == 1:
            self._listener.close()  # nothing will listen: connections are refused, as they would be

        def take() -> socket.socket | None:
            listener, self._listener = self._listener, None
            if listener is not None:
                return listener
            try:  # the second start of a container, or a second container
                return addresses.bind(self._ip, self._port)
            except OSError:
                return None

        return take

    async def _change(self, index: int, **changes: Any) -> None:
        self._containers[index] = replace(self._containers[index], **changes)
        async with self._written:
            status = running_status(self.pod, self._containers, self._ip, self._started, rfc3339())
            self.pod["status"] = {**(self.pod.get("status") or {}), **status}
            await self._write(status)

    async def _write(self, status: Manifest) -> None:
        """Writes the status, however long the API is away: the containers go on meanwhile."""
        while True:
            try:
                await self._node.api.write_status(self.pod, status)
            except Exception as error:
                log.warning("a Pod's status could not be written; trying again", pod=self.title, error=describe(error))
            else:
                return
            await self._sleep(WRITE_RETRY_SECONDS)
            if self._stopping.is_set():
                return

    async def _record(self, component: str, name: str, message: str) -> None:
        await self._node.api.record(self.pod, name=name, reason=REASON, message=message, component=component)

    async def _tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event of the node itself; that it cannot be written changes nothing for the Pod."""
        name = f"{self.pod['metadata']['name']}.{secrets.token_hex(8)}"
        try:
            await self._node.api.record(self.pod, name=name, reason=reason, message=message, warning=warning)
        except Exception as error:
            log.warning("an Event of a Pod could not be written", pod=self.title, reason=reason, error=describe(error))

    async def pause(self, seconds: float) -> bool:
        """Waits; tells whether the Pod is still to live then."""
        await self._sleep(seconds)
        return not self._stopping.is_set()

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _log_path(self) -> Path:
        metadata = self.pod["metadata"]
        return self._node.log_dir / str(metadata["namespace"]) / f"{metadata['name']}.log"


def _entry(found: dict[tuple[str, str], dict[str, str]], kind: str, name: str, key: str) -> str | None:
    return found[kind, name].get(key)


def _was_running(pod: Manifest) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")
