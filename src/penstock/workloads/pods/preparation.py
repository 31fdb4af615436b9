"""Prepares the run of a container: environment, command, files and log. Also runs its probes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyreqwest.client import Client

from penstock.workloads.actors.http_actor import PORT, TLS_PORT
from penstock.workloads.actors.node_line import Start
from penstock.workloads.images import Actor, Images, Program, Run
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.pods.actor_process import ActorProcess, ActorServices
from penstock.workloads.pods.addresses import PodAddress
from penstock.workloads.processes import probes, volumes
from penstock.workloads.processes.command import PASSED_ON, base_environment, check_variables, command_of, first_port
from penstock.workloads.processes.environment import ConfigError, environment, references
from penstock.workloads.processes.node_context import NodeContext
from penstock.workloads.processes.process import MARK, CannotStart, Launch, LocalProcess

DEFAULT_GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Node:
    """What all Pods of the node share."""

    api: PodApi
    client: Client
    services: ActorServices
    """Services for built-in programs."""
    log_dir: Path
    images: Images
    surroundings: NodeContext


class Preparation:
    """Prepares the runs of one Pod's containers."""

    def __init__(self, pod: Manifest, node: Node, logs: Path, address: PodAddress) -> None:
        self._pod, self._node, self._logs, self._address = pod, node, logs, address
        self._ports: dict[int, int] = {}
        self._environments: dict[str, dict[str, str]] = {}

    @property
    def moved_ports(self) -> dict[int, int]:
        """Container ports that are in use, and the ports that are used instead."""
        return {wanted: port for wanted, port in self._ports.items() if wanted != port}

    async def run(self, spec: Manifest, image: Actor | Program) -> Run:
        """The next run of a container. Raises ConfigError or CannotStart."""
        found = {ref: await self._node.api.entries(self._pod, *ref) for ref in references(spec)}
        path = volumes.below(self._logs, f"{spec['name']}.log")
        if isinstance(image, Actor):
            return await self._actor(image, spec, environment(self._pod, spec, found), path)
        check_variables(environment(self._pod, spec, found), image)
        port = await self._port(first_port(spec, PORT))
        laid = await volumes.lay_out(self._pod, spec, self._node.api, self._node.surroundings)
        context = self._node.surroundings
        base = base_environment(self._pod, os.environ, port=port, proxies=context.proxies)
        env = environment(self._pod, spec, found, {**base, **laid.env})
        command = [laid.replaced(word) for word in command_of(spec, image, env)]
        env = {name: laid.replaced(value) for name, value in env.items()}
        env[MARK] = str(self._node.surroundings.data_dir)
        self._environments[spec["name"]] = env
        await asyncio.to_thread(_begin_log, path)
        from_log = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        launch = Launch(command, env, _folder(spec), path, laid.mounts, laid.root, from_log)
        try:
            return LocalProcess(launch)
        except CannotStart as error:
            path.write_text(f"{error}\n", encoding="utf-8")
            raise CannotStart(f"{error} (named by {image.setting})" if image.command else str(error)) from None

    async def refresh(self, spec: Manifest) -> None:
        """Updates the volumes of a running container. Raises ConfigError."""
        await volumes.refresh(self._pod, spec, self._node.api, self._node.surroundings)

    def check(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> Callable[[], Awaitable[str | None]]:
        """A check of the container, which returns an error or None."""

        async def ask() -> str | None:
            try:
                return await self._ask(spec, image, probe)
            except ConfigError as error:
                return str(error)

        return ask

    async def _ask(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> str | None:
        ((kind, action),) = probe.action.items()
        if kind == "exec":
            if isinstance(image, Actor):
                return "built-in programs do not support exec probes"
            if image.command:
                return f"{image.setting} sets the only command of this image; [] would allow the Pod's own"
            command, env = list(action.get("command") or ()), self._environments.get(spec["name"], {})
            return await probes.execute(command, env, _folder(spec), probe.timeout)
        number = probes.port_number(spec, action["port"])
        port, host = self._ports.get(number, number), str(action.get("host") or self._address.ip)
        if kind == "httpGet":
            return await probes.http_get(self._node.client, action, host, port, probe.timeout)
        return await probes.connect(host, port, probe.timeout)

    async def _port(self, wanted: int) -> int:
        """The port that the Pod uses for `wanted` as long as it exists."""
        if wanted not in self._ports:
            self._ports[wanted] = await asyncio.to_thread(self._address.port, wanted)
        return self._ports[wanted]

    async def _actor(self, actor: Actor, spec: Manifest, env: Mapping[str, str], log: Path) -> Run:
        context = self._node.surroundings
        shown = await volumes.lay_out_volumes(self._pod, spec, self._node.api, context)
        grace = self._pod["spec"].get("terminationGracePeriodSeconds")
        start = Start(
            program=actor.name,
            env=dict(env),
            pod=self._pod["metadata"]["name"],
            ip=self._address.ip,
            ports={port: await self._port(port) for port in (PORT, TLS_PORT)},
            volumes=[(target, str(source)) for source, target in shown],
            most_bytes=self._node.services.most_bytes,
            grace=DEFAULT_GRACE_SECONDS if grace is None else float(grace),
        )
        await asyncio.to_thread(_begin_log, log)
        own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        mounts = volumes.only_volumes(self._pod, context)
        launch = Launch(ActorProcess.COMMAND, own | {MARK: str(context.data_dir)}, Path("/"), log, *mounts)
        return ActorProcess(self._pod, start, launch, self._node.services)


def _folder(spec: Mapping[str, Any]) -> Path:
    """The working folder: the container's workingDir if it exists on this machine, otherwise the current folder."""
    wanted = Path(spec.get("workingDir") or "")
    return wanted if wanted.is_absolute() and wanted.is_dir() else Path.cwd()


def _begin_log(path: Path) -> None:
    """Starts a new log and keeps that of the previous run."""
    if path.exists():
        path.replace(path.with_suffix(".previous.log"))
    path.touch()
