"""penstock in a cluster: installed by `penstock install`, and every role a process with what its Pod would have.

Two ingresses on one port, two controls, two pipelines and the webhook, with the rights of their ServiceAccounts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from penstock.engine.ports import free_ports
from penstock.install import access
from penstock.webhook import certificates
from tools.cluster.kafka import KafkaCluster
from tools.cluster.kubernetes import NAMESPACE, RealApi
from tools.cluster.processes import Program
from tools.cluster.standalone_spark import CORES_EACH, SLOTS, StandaloneSpark

READY_SECONDS = 600.0
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
STANDING_BY = "standing by"
RESTART_SECONDS = 2.0
USER = "penstock"
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
ACCOUNTS = {
    "webhook": access.WEBHOOK,
    "control": access.CONTROL,
    "pipeline": access.PIPELINE,
}
"""Roles whose Pods have credentials. The ingress needs none."""
NAMES = ("webhook", "control-1", "control-2", "ingress-1", "ingress-2", "pipeline-1", "pipeline-2")


@dataclass
class Role:
    """A role that runs."""

    program: Program
    url: str
    """Where it answers probes."""

    async def readyz(self, client: Client) -> str:
        """What it says of itself; empty where it does not answer."""
        try:
            return (await (await client.get(f"{self.url}/readyz").build().send()).text()).strip()
        except PyreqwestError:
            return ""


class Installation:
    """All roles, on a Kafka, a Spark and an API that are there."""

    def __init__(self, folder: Path, api: RealApi, kafka: KafkaCluster, spark: StandaloneSpark) -> None:
        self._folder, self._api, self._kafka, self._spark = folder, api, kafka, spark
        self._port, self._webhook_port = free_ports(2)
        self.roles: dict[str, Role] = {}
        self.client: Client = ClientBuilder().no_proxy().build()
        self.hit: set[str] = set()
        """Roles that a fault is about, and that are started again when it is over."""
        self.restarted: list[str] = []
        """Roles that have ended although nothing was done to them."""

    @property
    def ingress_url(self) -> str:
        """Where events are accepted, by either ingress."""
        return f"http://{self._api.address}:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """How the administrator reaches the API."""
        return self._api.kubeconfig

    @property
    def kafka_variables(self) -> dict[str, str]:
        """How a command of the administrator reaches Kafka."""
        conf = json.dumps(self._kafka.conf(USER))
        return {"PENSTOCK_KAFKA": self._kafka.secure, "PENSTOCK_KAFKA_CONF": conf}

    def install(self) -> None:
        """What an administrator does: `penstock install`, and the Secret by which Kafka is reached."""
        settings = {
            "partitions": 1,
            "port": self._port,
            "webhook_port": self._webhook_port,
            "address_base": self.ingress_url,
            "deliver_loopback": "true",  # where the subscribers of this run are
            "spark_master": self._spark.url,
            "spark_executor_cores": CORES_EACH,
            "spark_executor_memory_mib": 512,
            "spark_warm_standby": "true",
        }
        chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self._api.install("--kafka", self._kafka.secure, *chosen)
        secret = ("create", "secret", "generic", "penstock-secrets", "-n", NAMESPACE)
        conf = self.kafka_variables["PENSTOCK_KAFKA_CONF"]
        spark = {
            "spark.authenticate.secret": self._spark.secret,
            "spark.cores.max": SLOTS,
            "spark.executor.extraJavaOptions": SMALL_JVM,
        }
        literals = {"PENSTOCK_KAFKA_CONF": conf, "PENSTOCK_SPARK_CONF": json.dumps(spark)}
        self._api.kubectl(*secret, *(f"--from-literal={name}={value}" for name, value in literals.items()))
        kubeconfigs = {role: self._api.account_kubeconfig(account) for role, account in ACCOUNTS.items()}
        variables = self._api.pod_variables(None)
        for name, health in zip(NAMES, free_ports(len(NAMES)), strict=True):
            own = {"data_dir": self._folder / name / "data", "health_port": health}
            self.roles[name] = self._role(name, health, variables, own, kubeconfigs.get(_role_of(name)))

    def _role(
        self, name: str, health: int, variables: dict[str, str], own: dict[str, Any], kubeconfig: Path | None
    ) -> Role:
        settings = own if kubeconfig is None else {**own, "kubeconfig": kubeconfig}
        mine = {f"PENSTOCK_{key.upper()}": str(value) for key, value in settings.items()}
        program = Program(name, self._folder / name, [PENSTOCK, _role_of(name)], {**variables, **mine})
        return Role(program, f"http://{self._api.address}:{health}")

    async def start(self) -> None:
        """Starts all roles, and waits until each serves or stands by."""
        self._api.lead_service(certificates.SERVICE, "https", self._webhook_port)
        for role in self.roles.values():
            await role.program.start()
        for name in self.roles:
            await self.wait(name, READY_SECONDS)

    async def wait(self, name: str, seconds: float = READY_SECONDS) -> str:
        """Waits until the role serves or stands by; which of them."""
        said = ""
        try:
            async with asyncio.timeout(seconds):
                while (said := await self.roles[name].readyz(self.client)) not in ("ok", STANDING_BY):
                    if not self.roles[name].program.runs:
                        raise RuntimeError(f"{name} has ended:\n{self.roles[name].program.last_words()}")
                    await asyncio.sleep(0.1)
        except TimeoutError:
            words = self.roles[name].program.last_words()
            raise RuntimeError(f"{name} is not ready after {seconds:g} s: {said}\n{words}") from None
        return said

    async def keep(self) -> None:
        """Starts again what ends by itself, as a kubelet would; what is hit is looked after by who hits it."""
        while True:
            await asyncio.sleep(RESTART_SECONDS)
            for name, role in self.roles.items():
                if not role.program.runs and name not in self.hit:
                    self.restarted.append(name)
                    await role.program.start()

    async def active(self, role: str, seconds: float = READY_SECONDS) -> tuple[str, str]:
        """The one of the two that is at work, and the one that stands by."""
        async with asyncio.timeout(seconds):
            while True:
                said = {name: await self.roles[name].readyz(self.client) for name in (f"{role}-1", f"{role}-2")}
                if sorted(said.values()) == ["ok", STANDING_BY]:
                    at_work = next(name for name, word in said.items() if word == "ok")
                    return at_work, next(name for name in said if name != at_work)
                await asyncio.sleep(0.2)

    async def delivered(self) -> float:
        """Deliveries that /metrics of the pipelines count: tasks on executors must have told them."""
        found = 0.0
        for name, role in self.roles.items():
            if _role_of(name) == "pipeline":
                text = await (await self.client.get(f"{role.url}/metrics").build().send()).text()
                lines = [one for one in text.splitlines() if one.startswith("penstock_events_delivered_total{")]
                found += sum(float(line.rpartition(" ")[2]) for line in lines)
        return found

    async def stop(self) -> None:
        """Ends all, those first that need the others."""
        for role in ("pipeline", "ingress", "control", "webhook"):
            await asyncio.gather(*(one.program.stop() for name, one in self.roles.items() if _role_of(name) == role))
        await self.client.close()


def _role_of(name: str) -> str:
    return name.partition("-")[0]
