"""The embedded Kafka: one node, broker and controller in one JVM with a small heap, its log in the data folder.

It is sized for a laptop: few threads, a small compaction buffer, no idle chatter of the metadata log. Topics are
created by `penstock.engine.topics.setup`, never by use.

Every account of the machine reaches its ports, so both listeners ask for credentials. Clients log in by SCRAM with a
password that is made with the storage and kept in the data folder. Storage of a version that had no password gets one
at its next start: there the server also takes a secret that is made for that start, with which the password is set.
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
from penstock.engine.jars import Jars, archive_folder
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
"""Who sets the password in storage that has none yet."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""The file by which Kafka knows that it was stopped in order. It removes it when it starts."""


def properties(
    settings: Settings, controller_port: int, password: str, upgrade_secret: str | None = None
) -> dict[str, str]:
    """The server's configuration. With `upgrade_secret` it takes that besides the password."""
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


def _credentials(password: str, upgrade_secret: str | None) -> dict[str, str]:
    """Whom the listeners let in, and how this server logs in at both of them itself.

    The controller's cannot use SCRAM, because that is where the passwords of SCRAM are kept. Its only client is in the
    same process, so its secret is made anew for each start.
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
    """Files with all that a program needs to connect: in the form of kcat's `-F`, and in that of Java's clients."""
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
        # What its heap grows to within minutes of load is taken at once, so that memory stays where it begins.
        *("-Xms112m", "-XX:+AlwaysPreTouch"),
        *("-XX:MaxMetaspaceSize=160m", "-XX:ReservedCodeCacheSize=64m", "-XX:+ExitOnOutOfMemoryError"),
        *COMPILE_LATER,
        *("-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *("-Dorg.slf4j.simpleLogger.showDateTime=false", "-Dorg.slf4j.simpleLogger.levelInBrackets=true"),
        *("-Djava.awt.headless=true", "-cp", jars.kafka_classpath, "kafka.Kafka", str(config)),
    ]


def forget_transactions(settings: Settings) -> None:
    """Removes Kafka's notes of transactions where it was not stopped in order. To be called before a stack starts.

    They are not written to disk at once, while some of what was written in transactions is. After a power loss they may
    know of older producers than the topics, and then Kafka ends no transaction of theirs any more, nor begins one.
    Without them all begin anew, and the pipeline ends what is still open. What is lost is what was confirmed a moment
    before, which its writers notice: none of it is an event.
    """
    logs = settings.embedded_kafka_dir / "log"
    if not (logs / CLEAN_SHUTDOWN).exists():
        for notes in logs.glob("__transaction_state-*"):
            shutil.rmtree(notes)


def archive(settings: Settings, jars: Jars, java: Java) -> ClassArchive:
    """The class archive of the embedded Kafka's JVM."""
    return archive_of("kafka", archive_folder(settings), java.home, jars.kafka_files)


def _make_secrets(settings: Settings, *, formatted: bool) -> str | None:
    """Makes the password, where there is none. Returns the secret with which it is set in storage that has none yet."""
    password, upgrade = embedded_password_file(settings), _upgrade_file(settings)
    if formatted and (upgrade.exists() or not password.exists()):
        write_private(upgrade, secrets.token_hex(32).encode())  # before the password: both are made, or it is repeated
    if not password.exists():
        write_private(password, secrets.token_hex(32).encode())
    return upgrade.read_text() if upgrade.exists() else None


def _upgrade_file(settings: Settings) -> Path:
    """There as long as the storage does not know the password. The secret in it is good for one start."""
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
    # The arguments are read from a file: all accounts of the machine see a command line.
    arguments = config.with_name("format.arguments")
    scram = f"{EMBEDDED_MECHANISM}=[name={EMBEDDED_USER},password={password}]"
    words = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config), "--add-scram", scram]
    write_private(arguments, "\n".join(f'"{_escaped(word)}"' for word in words).encode())
    command = [str(java.program), *shared, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-XX:-UsePerfData", "-cp", jars.kafka_classpath, f"@{arguments}"]  # perf data would have the arguments
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        arguments.unlink()
    if ran.returncode != 0:
        raise UserError(
            f"Kafka could not format its storage in {config.parent}.",
            "If you do not need its content, remove the folder; otherwise choose another with --data-dir.",
            tuple((ran.stdout + ran.stderr).splitlines()[-12:]),
        )


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"')


async def answering(settings: Settings) -> None:
    """Returns when the cluster describes itself, and knows the password."""
    if (upgrade := _upgrade_file(settings)).exists():
        await _set_password(settings, upgrade.read_text())
        upgrade.unlink()
    await _until_it_answers(TopicAdmin(settings))


async def _set_password(settings: Settings, secret: str) -> None:
    """Sets the password with the secret of this start, which is sent to no process but the Kafka that was started."""
    while not await asyncio.to_thread(_child_listens, settings.kafka_port):  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.1)
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN"}
    login |= {"sasl.username": UPGRADE_USER, "sasl.password": secret}
    admin = TopicAdmin(settings.model_copy(update={"kafka": settings.bootstrap, "kafka_conf": login}))
    await _until_it_answers(admin)
    password = embedded_password_file(settings).read_text()
    await asyncio.to_thread(admin.set_password, EMBEDDED_USER, password)


def _child_listens(port: int) -> bool:
    """Whether a process that this one started listens at the port."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in child.net_connections("tcp")):
                return True
    return False


async def _until_it_answers(admin: TopicAdmin) -> None:
    while True:
        try:
            await asyncio.to_thread(admin.brokers, 2.0)
            return
        except NotDone:
            await asyncio.sleep(0.1)
