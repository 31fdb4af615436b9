"""From a container's description to a program that can be run: its environment, command, files and log."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyreqwest.client import Client

from penstock.contract.names import Location, service_host, service_names
from penstock.tls.server import ServerTls
from penstock.workloads.actors.event_display import EventDisplay
from penstock.workloads.actors.http_actor import PORT, TLS_PORT
from penstock.workloads.actors.options import PLACES, BrokenEnvironment, read_options
from penstock.workloads.actors.program import ActorEnvironment, EventsHub
from penstock.workloads.actors.reporting import REASON, PodLog, Reports
from penstock.workloads.actors.sender import Locate
from penstock.workloads.actors.transform import Transform
from penstock.workloads.images import Actor, Images, Program
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.pods.addresses import PodAddress
from penstock.workloads.processes import checks, files, probes
from penstock.workloads.processes.command import base_environment, command_of, first_port
from penstock.workloads.processes.environment import ConfigError, environment, references
from penstock.workloads.processes.node_context import NodeContext
from penstock.workloads.processes.process import MARK, CannotStart, Launch, LocalProcess
from penstock.workloads.proxy import place
from penstock.workloads.run import Exit, Run

_SERVICE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Node:
    """What all Pods of the node share."""

    api: PodApi
    client: Client
    trusting: Callable[[Location], Client]
    """A client for a place that believes servers by the trust bundles as well, as they are now."""
    tls: Callable[[Sequence[str]], ServerTls]
    """TLS of a server that comes and goes, with a certificate for these names."""
    locate: Locate
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
        """The ports that containers have in place of others: somebody listens on those already."""
        return {wanted: port for wanted, port in self._ports.items() if wanted != port}

    async def run(self, spec: Manifest, image: Actor | Program) -> Run:
        """The next run of a container. Raises ConfigError or CannotStart."""
        found = {ref: await self._node.api.entries(self._pod, *ref) for ref in references(spec)}
        path = self._logs / f"{spec['name']}.log"
        if isinstance(image, Actor):
            env = await self._with_own_paths(spec, PLACES | environment(self._pod, spec, found))
            ports = {port: await self._port(port) for port in (PORT, TLS_PORT)}
            await asyncio.to_thread(_begin_log, path)
            return self._actor(image, env, PodLog(path), ports)
        port = await self._port(first_port(spec, PORT))
        laid = await files.lay_out(self._pod, spec, self._node.api, self._node.surroundings)
        around = self._node.surroundings
        base = base_environment(self._pod, os.environ, port=port, proxy=around.proxy, tunnels=around.tunnels)
        env = environment(self._pod, spec, found, {**base, **laid.env})
        command = [laid.replaced(word) for word in command_of(spec, image, env)]
        env = {name: laid.replaced(value) for name, value in env.items()}
        env[MARK] = str(self._node.surroundings.data_dir)
        self._environments[spec["name"]] = env
        await asyncio.to_thread(_begin_log, path)
        told = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        launch = Launch(command, env, _folder(spec), path, laid.mounts, laid.root, told)
        try:
            return LocalProcess(launch)
        except CannotStart as error:
            path.write_text(f"{error}\n", encoding="utf-8")
            raise CannotStart(f"{error} (named by {image.setting})" if image.command else str(error)) from None

    async def refresh(self, spec: Manifest) -> None:
        """Has a container that runs see what its volumes show by now. Raises ConfigError."""
        await files.refresh(self._pod, spec, self._node.api, self._node.surroundings)

    async def _with_own_paths(self, spec: Manifest, env: dict[str, str]) -> dict[str, str]:
        """For an actor, which is no process and has no mounts: paths of its volumes as they are on this machine."""
        if not spec.get("volumeMounts"):
            return env
        laid = await files.lay_out(self._pod, spec, self._node.api, self._node.surroundings)
        moved = replace(laid, moved=laid.mounts or laid.moved)
        return {name: moved.replaced(value) for name, value in env.items()}

    def check(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> Callable[[], Awaitable[str | None]]:
        """A check of the container, which gives None where it succeeds, and else why not."""

        async def ask() -> str | None:
            try:
                return await self._ask(spec, image, probe)
            except ConfigError as error:
                return str(error)

        return ask

    async def _ask(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> str | None:
        ((kind, action),) = probe.action.items()
        if kind == "exec":
            if isinstance(image, Program) and image.command:
                return f"{image.setting} names the only command of this image; [] would allow the Pod's own"
            command, env = list(action.get("command") or ()), self._environments.get(spec["name"], {})
            return await checks.execute(command, env, _folder(spec), probe.timeout)
        number = probes.port_number(spec, action["port"])
        port, host = self._ports.get(number, number), str(action.get("host") or self._address.ip)
        if kind == "httpGet":
            return await checks.http_get(self._node.client, action, host, port, probe.timeout)
        return await checks.connect(host, port, probe.timeout)

    async def _port(self, wanted: int) -> int:
        """The port that the Pod has in place of `wanted`, for as long as it lives."""
        if wanted not in self._ports:
            self._ports[wanted] = await asyncio.to_thread(self._address.port, wanted)
        return self._ports[wanted]

    def _actor(self, actor: Actor, env: Mapping[str, str], log: PodLog, ports: Mapping[int, int]) -> Run:
        def listener(port: int) -> socket.socket | None:
            try:
                return self._address.listen(ports[port])
            except OSError:
                return None

        def locate(url: str) -> Location:
            return place(self._node.locate, url, self._pod["metadata"]["namespace"])

        def tls_of(service: str) -> ServerTls:
            # Whoever may make Pods in a namespace may not speak for anyone but its Services: no name has a dot, and
            # of the names in full those are left out that are short enough to mean a host elsewhere.
            if _SERVICE.fullmatch(service) is None:
                raise BrokenEnvironment(f'"{service}" is not the name of a Service')
            return self._node.tls(service_names(service_host(service, self._pod["metadata"]["namespace"]))[:2])

        if actor.name == "event_display":
            return Logged(EventDisplay(log, listener), log)
        try:
            if actor.name == "transform-jsonata":
                return Logged(Transform(env, log, self._node.trusting, locate, listener, tls_of=tls_of), log)
            wanted = read_options(actor.name, {"POD_NAME": self._pod["metadata"]["name"], **env})
        except BrokenEnvironment as broken:
            return Logged(Ended(Exit(1, f"failed to process the environment: {broken}")), log)
        reports = Reports(wanted.common, log, self._record)
        node = self._node
        around = ActorEnvironment(node.client, locate, reports, listener, node.api.review)
        return Logged(EventsHub(wanted, around), log)

    async def _record(self, component: str, name: str, message: str) -> None:
        await self._node.api.record(self._pod, name=name, reason=REASON, message=message, component=component)


class Logged:
    """A run whose last words are written into its log."""

    def __init__(self, run: Run, log: PodLog) -> None:
        self._run, self._log = run, log

    def stop(self, grace: float) -> None:
        """See `Run`."""
        self._run.stop(grace)

    async def run(self, ready: Callable[[], None]) -> Exit:
        """See `Run`."""
        try:
            ended = await self._run.run(ready)
            if ended.message:
                self._log.write(ended.message)
            return ended
        finally:
            self._log.close()


class Ended:
    """A run that is over before it began."""

    def __init__(self, ended: Exit) -> None:
        self._ended = ended

    def stop(self, grace: float) -> None:
        """See `Run`."""

    async def run(self, ready: Callable[[], None]) -> Exit:
        """See `Run`."""
        return self._ended


def _folder(spec: Mapping[str, Any]) -> Path:
    """Where the program runs: the Pod's workingDir where this machine has it, else where penstock was started."""
    wanted = Path(spec.get("workingDir") or "")
    return wanted if wanted.is_absolute() and wanted.is_dir() else Path.cwd()


def _begin_log(path: Path) -> None:
    """Keeps the log of the run before."""
    if path.exists():
        path.replace(path.with_suffix(".previous.log"))
    path.touch()
