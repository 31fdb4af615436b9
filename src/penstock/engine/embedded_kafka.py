"""The embedded Kafka: one node, broker and controller in one JVM with a small heap, its log in the data folder.

It is sized for a laptop: few threads, a small compaction buffer, no idle chatter of the metadata log. Topics are
created by `penstock.engine.topics.setup`, never by use.
"""

from __future__ import annotations

import asyncio
import base64
import subprocess
import uuid
from pathlib import Path

from penstock.engine.class_archives import ClassArchive, archive_of
from penstock.engine.jars import Jars, archive_folder
from penstock.engine.java import COMPILE_LATER, Java
from penstock.engine.ports import free_port_beside
from penstock.engine.problem import Problem
from penstock.log.admin import NotDone, TopicAdmin
from penstock.settings import Settings


def properties(settings: Settings, controller_port: int) -> dict[str, str]:
    """The server's configuration."""
    record = str(settings.max_record_bytes)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{settings.kafka_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{settings.kafka_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder(settings) / "log"),
        "auto.create.topics.enable": "false",
        # One node: internal topics have one replica, and one partition is enough for them.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # The largest event with its headers must pass, and be fetched.
        "message.max.bytes": record,
        "replica.fetch.max.bytes": record,
        # Small: the defaults are for machines that do nothing else.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
        "log.cleaner.dedupe.buffer.size": str(8 * 2**20),
        "offsets.load.buffer.size": str(2**20),
        "transaction.state.log.load.buffer.size": str(2**20),
        # Quiet: without this the metadata log gets a record every half second.
        "metadata.max.idle.interval.ms": "30000",
        # After a kill the controller waits for the former life of the broker to time out before it takes the new one:
        # this is most of the time that a recovery of Kafka takes. A broker that paused for longer is taken out, and
        # comes back with its next heartbeat.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "log.retention.check.interval.ms": "60000",
    }


def folder(settings: Settings) -> Path:
    """Where the embedded Kafka keeps its files."""
    return settings.data_dir / "kafka"


def prepare(settings: Settings, jars: Jars, java: Java) -> list[str]:
    """Writes the configuration, formats the storage if it is new, and returns the command that runs the server."""
    home = folder(settings)
    home.mkdir(parents=True, exist_ok=True)
    config = home / "server.properties"
    controller_port = free_port_beside(settings)
    lines = [f"{key}={value}" for key, value in properties(settings, controller_port).items()]
    config.write_text("\n".join(lines) + "\n")
    shared = archive(settings, jars, java).options()
    if not (home / "log" / "meta.properties").exists():
        _format(config, jars, java, shared)
    return [
        *(str(java.program), *shared, f"-Xmx{settings.kafka_heap_mib}m", "-XX:+UseSerialGC", "-Xss512k"),
        # What its heap grows to within minutes of load is taken at once, so that memory stays where it begins.
        *("-Xms112m", "-XX:+AlwaysPreTouch"),
        *("-XX:MaxMetaspaceSize=160m", "-XX:ReservedCodeCacheSize=64m", "-XX:+ExitOnOutOfMemoryError"),
        *COMPILE_LATER,
        *("-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *("-Dorg.slf4j.simpleLogger.showDateTime=false", "-Dorg.slf4j.simpleLogger.levelInBrackets=true"),
        *("-Djava.awt.headless=true", "-cp", jars.kafka_classpath, "kafka.Kafka", str(config)),
    ]


def archive(settings: Settings, jars: Jars, java: Java) -> ClassArchive:
    """The class archive of the embedded Kafka's JVM."""
    return archive_of("kafka", archive_folder(settings), java.home, jars.kafka_files)


def _format(config: Path, jars: Jars, java: Java, shared: list[str]) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    while cluster.startswith("-"):  # would be read as an option
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [str(java.program), *shared, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
    command += [jars.kafka_classpath, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if ran.returncode != 0:
        raise Problem(
            f"Kafka's storage in {config.parent} could not be prepared.",
            "If the folder holds nothing you need, remove it; otherwise choose another with --data-dir.",
            tuple((ran.stdout + ran.stderr).splitlines()[-12:]),
        )


async def answering(settings: Settings) -> None:
    """Returns when the cluster describes itself."""
    admin = TopicAdmin(settings)
    while True:
        try:
            await asyncio.to_thread(admin.brokers, 2.0)
            return
        except NotDone:
            await asyncio.sleep(0.1)
