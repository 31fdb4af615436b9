"""The installation: one embedded API, two ingresses on one port, two controls, two pipelines, each on its own."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from cluster.processes import Program
from penstock.engine.ports import free_ports

READY_SECONDS = 300.0
STANDING_BY = "standing by"
RESTART_SECONDS = 2.0


@dataclass
class Role:
    """A role that runs."""

    program: Program
    health_port: int

    async def readyz(self, client: Client) -> str:
        """What it says of itself; empty where it does not answer."""
        try:
            url = f"http://127.0.0.1:{self.health_port}/readyz"
            return (await (await client.get(url).build().send()).text()).strip()
        except PyreqwestError:
            return ""


class Installation:
    """All roles, on a Kafka that is there."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        names = ["apiserver", "control-1", "control-2", "pipeline-1", "pipeline-2", "ingress-1", "ingress-2"]
        self._port, self._api_port, *health = free_ports(2 + len(names))
        self.roles = {
            name: Role(Program(name, folder / name, self._command(name, bootstrap, port)), port)
            for name, port in zip(names, health, strict=True)
        }
        self.client: Client = ClientBuilder().no_proxy().build()
        self.hit: set[str] = set()
        """Roles that a fault is about, and that are started again when it is over."""
        self.restarted: list[str] = []
        """Roles that have ended although nothing was done to them."""

    @property
    def ingress_url(self) -> str:
        """Where events are accepted, by either ingress."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """How the API is reached."""
        return self.folder / "control-plane" / "kubeconfig"

    def _command(self, name: str, bootstrap: str, health_port: int) -> list[str]:
        role = name.partition("-")[0]
        # The controls reach the embedded API by what it leaves in its data folder.
        data = "control-plane" if role in ("apiserver", "control") else name
        flags = ["--data-dir", str(self.folder / data), "--health-port", str(health_port), "--partitions", "1"]
        flags += ["--port", str(self._port), "--api-port", str(self._api_port), "--kafka", bootstrap]
        return [str(Path(sys.executable).with_name("penstock")), role, *flags]

    async def start(self) -> None:
        """Starts all roles, and waits until each serves or stands by."""
        for role in self.roles.values():
            await role.program.start()
        for name in self.roles:
            await self.wait(name, READY_SECONDS)

    async def wait(self, name: str, seconds: float) -> str:
        """Waits until the role serves or stands by; which of them."""
        said = ""
        try:
            async with asyncio.timeout(seconds):
                while (said := await self.roles[name].readyz(self.client)) not in ("ok", STANDING_BY):
                    if not self.roles[name].program.runs:
                        raise RuntimeError(f"{name} has ended:\n{self.last_words(name)}")
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise RuntimeError(f"{name} is not ready after {seconds:g} s: {said}\n{self.last_words(name)}") from None
        return said

    async def keep(self) -> None:
        """Starts again what ends by itself, as a service manager would; what is hit is looked after by who hits it."""
        while True:
            await asyncio.sleep(RESTART_SECONDS)
            for name, role in self.roles.items():
                if not role.program.runs and name not in self.hit:
                    self.restarted.append(name)
                    await role.program.start()

    async def active(self, role: str) -> tuple[str, str]:
        """The one of the two that is at work, and the one that stands by."""
        while True:
            said = {name: await self.roles[name].readyz(self.client) for name in (f"{role}-1", f"{role}-2")}
            if sorted(said.values()) == ["ok", STANDING_BY]:
                at_work = next(name for name, word in said.items() if word == "ok")
                return at_work, next(name for name in said if name != at_work)
            await asyncio.sleep(0.2)

    def last_words(self, name: str) -> str:
        """The end of what a role has printed."""
        output = self.roles[name].program.output
        return "\n".join(output.read_text(errors="replace").splitlines()[-15:]) if output.exists() else ""

    async def stop(self) -> None:
        """Ends all, those first that need the others."""
        for role in ("pipeline", "ingress", "control", "apiserver"):
            await asyncio.gather(*(one.program.stop() for name, one in self.roles.items() if name.startswith(role)))
        await self.client.close()
