"""A Kafka as others run it: one or three brokers, with a listener that speaks SASL_SSL, users, and access rules.

Every broker also has a listener without any of that, for the brokers among themselves and for tests that look from
outside. Users log in by SCRAM-SHA-512; a user who is not told to have rights has none.
"""

from __future__ import annotations

import base64
import contextlib
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from penstock.contract.topics import TOPICS
from penstock.engine import java
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.ports import free_ports
from penstock.engine.topics import topic_setup
from penstock.settings import Settings
from penstock.web import certificates
from penstock.web.certificates import KeyPair
from tools.cluster.processes import tied

HEAP_MIB = 320
READY_SECONDS = 240.0
STOP_SECONDS = 20.0
MECHANISM = "SCRAM-SHA-512"
LASTS = timedelta(days=2)
SMALL = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
}
"""For tests of single things: quick to start, and quick to see that a broker is gone."""

RIGHTS = (
    (ResourceType.TOPIC, ("READ", "WRITE", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS")),
    (ResourceType.GROUP, ("READ",)),
    (ResourceType.TRANSACTIONAL_ID, ("WRITE", "DESCRIBE")),
)
"""What a user of penstock needs on names that begin with the prefix, as docs/kafka.md says."""


@dataclass
class Broker:
    """One broker of a cluster."""

    number: int
    folder: Path
    secure_port: int
    plain_port: int
    controller_port: int
    process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Ends it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ends it in order: what it leads is led by others where there are any, and it is in sync with nothing."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:  # without a majority of controllers it waits for one
                self.kill()

    def freeze(self) -> None:
        """It does nothing any more, but its connections stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@dataclass
class KafkaCluster:
    """Running brokers, and how to reach them."""

    folder: Path
    brokers: list[Broker]
    users: Mapping[str, str]
    """Passwords by name."""
    properties: Mapping[str, str]
    """What the brokers are told beyond what they need here."""
    _jars: Jars = field(repr=False)

    @property
    def plain(self) -> str:
        """Bootstrap addresses without security."""
        return ",".join(f"127.0.0.1:{broker.plain_port}" for broker in self.brokers)

    @property
    def secure(self) -> str:
        """Bootstrap addresses of the listeners that speak SASL_SSL."""
        return ",".join(f"127.0.0.1:{broker.secure_port}" for broker in self.brokers)

    @property
    def ca(self) -> Path:
        """Certificate of the authority that the brokers' certificates are from."""
        return self.folder / "ca.crt"

    def conf(self, user: str, password: str | None = None, ca: Path | None = None) -> dict[str, object]:
        """`kafka_conf` of a user; the password is read from a file, as it should be."""
        secret = self.folder / f"{user}.{'own' if password is None else 'given'}.password"
        secret.write_text((self.users[user] if password is None else password) + "\n")
        return {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": MECHANISM,
            "sasl.username": user,
            "sasl.password": {"file": str(secret)},
            "ssl.ca.location": str(ca or self.ca),
        }

    def allow(self, user: str, prefix: str = "penstock") -> None:
        """Gives a user the rights of an installation with this prefix."""
        bindings = [
            AclBinding(kind, prefix, ResourcePatternType.PREFIXED, f"User:{user}", "*", operation, _ALLOW)
            for kind, names in RIGHTS
            for operation in (AclOperation[name] for name in names)
        ]
        admin = AdminClient({"bootstrap.servers": self.plain})
        for made in admin.create_acls(bindings).values():
            made.result(30)

    def make_topics(self, settings: Settings, elsewhere: Mapping[tuple[str, int], int]) -> None:
        """Makes penstock's topics, each partition on one broker: the first, or where `elsewhere` says."""
        wanted = []
        for topic in TOPICS:
            partitions = range(topic_setup.partitions_of(topic, settings))
            places = [[elsewhere.get((topic.name, partition), 1)] for partition in partitions]
            config = topic_setup.config_of(topic, settings, 1)
            wanted.append(NewTopic(topic.name, len(places), replica_assignment=places, config=config))
        admin = AdminClient({"bootstrap.servers": self.plain})
        for made in admin.create_topics(wanted).values():
            made.result(60)

    def start(self, broker: Broker) -> None:
        """Starts a broker that does not run."""
        program = java.find_java().program
        command = [str(program), f"-Xmx{HEAP_MIB}m", "-Xms112m", "-XX:+UseSerialGC", "-Xss512k", "-XX:-UsePerfData"]
        command += ["-XX:TieredStopAtLevel=1"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.awt.headless=true"]
        command += ["-cp", self._jars.kafka_classpath, "kafka.Kafka", str(broker.folder / "server.properties")]
        with (broker.folder / "kafka.log").open("ab") as log, tied(command) as (tied_command, fds):
            broker.process = subprocess.Popen(
                tied_command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, pass_fds=fds
            )

    def wait(self, brokers: int) -> None:
        """Returns when the cluster names so many brokers."""
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
        admin = AdminClient({"bootstrap.servers": self.plain, **quiet})
        deadline = time.monotonic() + READY_SECONDS
        seen = 0
        while seen < brokers:
            with contextlib.suppress(Exception):
                seen = len(admin.describe_cluster(request_timeout=2).result(3).nodes)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{seen} of {brokers} brokers came up: see {self.folder}")
            time.sleep(0.1)


_ALLOW = AclPermissionType.ALLOW


@contextlib.contextmanager
def running_cluster(
    folder: Path,
    jars: Jars,
    brokers: int = 1,
    users: Mapping[str, str] | None = None,
    *,
    started: int | None = None,
    properties: Mapping[str, str] = SMALL,
) -> Iterator[KafkaCluster]:
    """So many brokers, of which `started` (all of them) run, with these users and without any topic."""
    folder.mkdir(parents=True, exist_ok=True)
    # The tool that writes users down takes no quotes and commas in a password.
    people = {"penstock": "pen.stock;1", "guest": "guest"} if users is None else users
    ports = iter(free_ports(3 * brokers))
    all_brokers = [Broker(n + 1, folder / str(n + 1), next(ports), next(ports), next(ports)) for n in range(brokers)]
    cluster = KafkaCluster(folder, all_brokers, people, properties, jars)
    _certify_brokers(folder)
    ident = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    for broker in all_brokers:
        broker.folder.mkdir()
        _configure(cluster, broker)
    _format(cluster, ident, jars)
    try:
        for broker in all_brokers[:started]:
            cluster.start(broker)
        cluster.wait(len(all_brokers[:started]))
        yield cluster
    finally:
        for broker in all_brokers:
            if broker.process is not None:
                broker.process.kill()
                broker.process.wait()


def _configure(cluster: KafkaCluster, broker: Broker) -> None:
    own = f"127.0.0.1:{broker.secure_port}", f"127.0.0.1:{broker.plain_port}"
    replicas = str(min(3, len(cluster.brokers)))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(broker.number),
        "controller.quorum.voters": ",".join(f"{b.number}@127.0.0.1:{b.controller_port}" for b in cluster.brokers),
        "listeners": f"SECURE://{own[0]},PLAIN://{own[1]},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": f"SECURE://{own[0]},PLAIN://{own[1]}",
        "listener.security.protocol.map": "SECURE:SASL_SSL,PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAIN",
        "controller.listener.names": "CONTROLLER",
        "listener.name.secure.sasl.enabled.mechanisms": MECHANISM,
        "listener.name.secure.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(cluster.folder / "broker.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "log.dirs": str(broker.folder / "log"),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, len(cluster.brokers))),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "message.max.bytes": str(4 * 2**20),
        "replica.fetch.max.bytes": str(4 * 2**20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": str(8 * 2**20),
        **cluster.properties,
    }
    # A backslash begins an escape in a file of properties.
    lines = [f"{name}={value}\n".replace("\\", "\\\\") for name, value in properties.items()]
    (broker.folder / "server.properties").write_text("".join(lines))


def _format(cluster: KafkaCluster, ident: str, jars: Jars) -> None:
    """Prepares the storage of all brokers, side by side: each is a JVM that starts and ends."""
    command = [str(java.find_java().program), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", jars.kafka_classpath, "kafka.tools.StorageTool", "format", "-t", ident]
    for name, password in cluster.users.items():
        command += ["--add-scram", f"{MECHANISM}=[name={name},password={password}]"]
    running = [
        subprocess.Popen(
            [*command, "-c", str(broker.folder / "server.properties")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for broker in cluster.brokers
    ]
    said = [process.communicate(timeout=READY_SECONDS)[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("Kafka's storage could not be prepared:\n" + "\n".join(said))


def make_authority(folder: Path, name: str) -> KeyPair:
    """A certificate authority, with its certificate in `<name>.crt`."""
    made = certificates.make_authority(name, LASTS, datetime.now(UTC))
    (folder / f"{name}.crt").write_bytes(made.certificate)
    return made


def _certify_brokers(folder: Path) -> None:
    """A certificate for this machine, with its key before it."""
    authority = make_authority(folder, "ca")
    made = certificates.issue_certificate(authority, "broker", ["localhost", "127.0.0.1"], LASTS, datetime.now(UTC))
    (folder / "broker.pem").write_bytes(made.key + made.certificate)
