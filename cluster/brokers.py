"""A Kafka of three brokers with small heaps, each of which can be killed and started again."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from cluster.processes import Program
from penstock.engine.jars import Jars
from penstock.engine.java import Java
from penstock.engine.ports import free_ports

HEAP_MIB = 320
READY_SECONDS = 180.0


@dataclass
class Broker:
    """One of the three."""

    number: int
    port: int
    controller_port: int
    program: Program


class Brokers:
    """The cluster."""

    def __init__(self, folder: Path, jars: Jars, java: Java, count: int = 3) -> None:
        ports = free_ports(2 * count)
        self._jars, self._java = jars, java
        self.brokers = [
            Broker(
                n,
                ports[2 * n],
                ports[2 * n + 1],
                Program(f"broker-{n}", folder / f"broker-{n}", self._command(folder, n)),
            )
            for n in range(count)
        ]

    @property
    def bootstrap(self) -> str:
        """Where it is reached."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    async def start(self) -> None:
        """Formats the storage and starts all; returns when the cluster names every one of them."""
        cluster = base64.urlsafe_b64encode(b"p" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        for broker in self.brokers:
            config = broker.program.folder / "server.properties"
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text("\n".join(f"{key}={value}" for key, value in self._properties(broker).items()) + "\n")
            await asyncio.to_thread(self._format, config, cluster)
        for broker in self.brokers:
            await broker.program.start()
        await asyncio.wait_for(self._whole(), READY_SECONDS)

    async def _whole(self) -> None:
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **quiet})
        seen = 0
        while seen < len(self.brokers):
            with contextlib.suppress(Exception):
                asked = admin.describe_cluster(request_timeout=2)
                seen = len((await asyncio.to_thread(asked.result, 3)).nodes)
            await asyncio.sleep(0.2)

    def _command(self, folder: Path, number: int) -> list[str]:
        config = folder / f"broker-{number}" / "server.properties"
        return [
            *(str(self._java.program), f"-Xmx{HEAP_MIB}m", "-Xms112m", "-XX:+UseSerialGC", "-Xss512k"),
            *("-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
            *("-Djava.awt.headless=true", "-cp", self._jars.kafka_classpath, "kafka.Kafka", str(config)),
        ]

    def _properties(self, broker: Broker) -> dict[str, str]:
        voters = ",".join(f"{one.number}@127.0.0.1:{one.controller_port}" for one in self.brokers)
        return {
            "process.roles": "broker,controller",
            "node.id": str(broker.number),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(broker.program.folder / "log"),
            "auto.create.topics.enable": "false",
            # As a cluster has it, but for the number of partitions: two cores are to bear three brokers.
            "offsets.topic.replication.factor": "3",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "transaction.state.log.num.partitions": "3",
            "message.max.bytes": str(3 * 2**20),
            "replica.fetch.max.bytes": str(3 * 2**20),
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(8 * 2**20),
        }

    def _format(self, config: Path, cluster: str) -> None:
        command = [str(self._java.program), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
        command += [self._jars.kafka_classpath, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
        subprocess.run(command, capture_output=True, check=True, timeout=120, env={**os.environ})
