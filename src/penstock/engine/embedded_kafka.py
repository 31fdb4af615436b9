"""The embedded Kafka: one node, broker and controller in one JVM with a small heap, its log in the data folder.

It is sized for a laptop: few threads, a small compaction buffer, few records in the metadata log. Topics are created by
`penstock.engine.topics.topic_setup`, never automatically.

Every user of the machine can connect to its ports, so both listeners require authentication. Clients use SCRAM with a
password that is generated with the storage and kept in the data folder. Storage of an older version without a password
gets one at its next start: that start accepts a temporary secret as well, with which the password is set.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

import psutil

from penstock.engine.class_archives import ClassArchive, archive_of
from penstock.engine.jars.jar_cache import Jars, archive_folder
from penstock.engine.java import COMPILE_LATER, Java
from penstock.engine.ports import free_port_beside
from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.kafka.clients import (
    EMBEDDED_MECHANISM,
    EMBEDDED_USER,
    embedded_password_file,
    jaas,
    java_options,
    librdkafka_options,
)
from penstock.kafka_properties import MECHANISMS
from penstock.runtime.errors import UserError
from penstock.runtime.files import write_private
from penstock.settings import Settings

UPGRADE_USER = "upgrade"
"""The user that sets the password in storage without one."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""Kafka writes this file in a clean shutdown and removes it when it starts."""


def properties(
    settings: Settings, controller_port: int, password: str, upgrade_secret: str | None = None
) -> dict[str, str]:
    """The server's configuration. `upgrade_secret` is accepted in addition to the password."""
    record = str(settings.max_record_bytes)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"CLIENTS://127.0.0.1:{settings.kafka_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{settings.kafka_port}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "controller.listener.names": "CONTROLLER",
        **_credentials(password, upgrade_secret),
        "log.dirs": str(settings.embedded_kafka_dir / "log"),
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
        # Large enough for the largest event with its headers.
        "message.max.bytes": record,
        "replica.fetch.max.bytes": record,
        # The defaults are for dedicated servers.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
        "log.cleaner.dedupe.buffer.size": str(8 * 2**20),
        "offsets.load.buffer.size": str(2**20),
        "transaction.state.log.load.buffer.size": str(2**20),
        # Without this the metadata log gets a record every half second.
        "metadata.max.idle.interval.ms": "30000",
        # After a kill the controller accepts the restarted broker only when the session of the old one has timed out:
        # this is most of Kafka's recovery time. A broker that paused for longer is fenced, and rejoins with its next
        # heartbeat.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "log.retention.check.interval.ms": "60000",
    }


def _credentials(password: str, upgrade_secret: str | None) -> dict[str, str]:
    """The credentials that both listeners accept, and those that this server uses itself.

    The controller listener cannot use SCRAM, because the controller stores the SCRAM passwords. Its only client is in
    the same process, so its secret is generated at each start.
    """
    clients = {EMBEDDED_MECHANISM: jaas(EMBEDDED_MECHANISM, EMBEDDED_USER, password)}
    if upgrade_secret is not None:
        clients["PLAIN"] = f'{MECHANISMS["PLAIN"]} required user_{UPGRADE_USER}="{upgrade_secret}";'
    own = secrets.token_hex(32)
    controller = jaas("PLAIN", "controller", own).replace(";", f' user_controller="{own}";')
    return {
        "sasl.mechanism.inter.broker.protocol": EMBEDDED_MECHANISM,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.sasl.enabled.mechanisms": ",".join(clients),
        **{f"listener.name.clients.{name.lower()}.sasl.jaas.config": login for name, login in clients.items()},
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": controller,
    }


def client_files(settings: Settings) -> dict[str, Path]:
    """Files with the configuration for clients: for librdkafka (`kcat -F`) and for Java."""
    folder = settings.data_dir / "pki"
    return {"librdkafka": folder / "kafka-client.conf", "java": folder / "kafka-client.properties"}


def prepare(settings: Settings, jars: Jars, java: Java) -> list[str]:
    """Writes the configuration, formats the storage if it is new, and returns the command that runs the server."""
    home = settings.embedded_kafka_dir
    home.mkdir(parents=True, exist_ok=True)
    config = home / "server.properties"
    formatted = (home / "log" / "meta.properties").exists()
    upgrade_secret = _make_secrets(settings, formatted=formatted)
    password = embedded_password_file(settings).read_text()
    _write_properties(config, properties(settings, free_port_beside(settings), password, upgrade_secret))
    _write_client_files(settings)
    shared = archive(settings, jars, java).options()
    if not formatted:
        _format(config, password, jars, java, shared)
    return [
        *(str(java.program), *shared, f"-Xmx{settings.kafka_heap_mib}m", "-XX:+UseSerialGC", "-Xss512k"),
        # The heap reaches this size within minutes of load anyway; so the memory use is constant from the start.
        *("-Xms112m", "-XX:+AlwaysPreTouch"),
        *("-XX:MaxMetaspaceSize=160m", "-XX:ReservedCodeCacheSize=64m", "-XX:+ExitOnOutOfMemoryError"),
        *COMPILE_LATER,
        *("-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *("-Dorg.slf4j.simpleLogger.showDateTime=false", "-Dorg.slf4j.simpleLogger.levelInBrackets=true"),
        *("-Djava.awt.headless=true", "-cp", jars.kafka_classpath, "kafka.Kafka", str(config)),
    ]


def forget_transactions(settings: Settings) -> None:
    """Removes Kafka's transaction state after an unclean shutdown. Call it before Kafka starts.

    Unlike some of the records written in transactions, the state is not flushed to disk at once. After a power loss it
    may contain older producer epochs than the topics; Kafka then neither ends nor begins transactions of these
    producers. Without the state all producers begin anew, and the pipeline aborts the transactions that are still open.
    Only the last commits may be lost, which their writers detect; none of them is an event.
    """
    logs = settings.embedded_kafka_dir / "log"
    if not (logs / CLEAN_SHUTDOWN).exists():
        for notes in logs.glob("__transaction_state-*"):
            shutil.rmtree(notes)


def archive(settings: Settings, jars: Jars, java: Java) -> ClassArchive:
    """The class archive of the embedded Kafka's JVM."""
    return archive_of("kafka", archive_folder(settings), java.home, jars.kafka_files)


def _make_secrets(settings: Settings, *, formatted: bool) -> str | None:
    """Generates the password if there is none. Returns the secret to set it with, for storage without a password."""
    password, upgrade = embedded_password_file(settings), _upgrade_file(settings)
    if formatted and (upgrade.exists() or not password.exists()):
        write_private(upgrade, secrets.token_hex(32).encode())  # first, so that an interrupted upgrade is repeated
    if not password.exists():
        write_private(password, secrets.token_hex(32).encode())
    return upgrade.read_text() if upgrade.exists() else None


def _upgrade_file(settings: Settings) -> Path:
    """Exists until the password is set in the storage. Its secret is accepted for one start."""
    return settings.embedded_kafka_dir / "upgrade-secret"


def _write_client_files(settings: Settings) -> None:
    files = client_files(settings)
    _write_properties(files["librdkafka"], {"bootstrap.servers": settings.bootstrap, **librdkafka_options(settings)})
    _write_properties(files["java"], {"bootstrap.servers": settings.bootstrap, **java_options(settings)})


def _write_properties(path: Path, properties: Mapping[str, object]) -> None:
    write_private(path, "".join(f"{key}={value}\n" for key, value in properties.items()).encode())


def _format(config: Path, password: str, jars: Jars, java: Java, shared: list[str]) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    while cluster.startswith("-"):  # would be read as an option
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # In a file, because every user of the machine can read command lines.
    arguments = config.with_name("format.arguments")
    scram = f"{EMBEDDED_MECHANISM}=[name={EMBEDDED_USER},password={password}]"
    words = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config), "--add-scram", scram]
    write_private(arguments, "\n".join(f'"{_escaped(word)}"' for word in words).encode())
    command = [str(java.program), *shared, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [
        "-XX:-UsePerfData",
        "-cp",
        jars.kafka_classpath,
        f"@{arguments}",
    ]  # perf data would contain the arguments
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        arguments.unlink()
    if ran.returncode != 0:
        raise UserError(
            f"Kafka's storage in {config.parent} could not be prepared.",
            "Remove the folder if you do not need what is in it; otherwise choose another one with --data-dir.",
            tuple((ran.stdout + ran.stderr).splitlines()[-12:]),
        )


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"')


async def wait_until_ready(settings: Settings) -> None:
    """Returns when Kafka responds and the password is set."""
    if (upgrade := _upgrade_file(settings)).exists():
        await _set_password(settings, upgrade.read_text())
        upgrade.unlink()
    await _wait_until_it_responds(TopicAdmin(settings))


async def _set_password(settings: Settings, secret: str) -> None:
    """Sets the password with the secret of this start, which is sent to no other process than the started Kafka."""
    while not await asyncio.to_thread(_child_listens, settings.kafka_port):  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.1)
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN"}
    login |= {"sasl.username": UPGRADE_USER, "sasl.password": secret}
    admin = TopicAdmin(settings.model_copy(update={"kafka": settings.bootstrap, "kafka_conf": login}))
    await _wait_until_it_responds(admin)
    password = embedded_password_file(settings).read_text()
    await asyncio.to_thread(admin.set_password, EMBEDDED_USER, password)


def _child_listens(port: int) -> bool:
    """Whether a child process listens on the port."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in child.net_connections("tcp")):
                return True
    return False


async def _wait_until_it_responds(admin: TopicAdmin) -> None:
    while True:
        try:
            await asyncio.to_thread(admin.brokers, 2.0)
            return
        except NotDone:
            await asyncio.sleep(0.1)
