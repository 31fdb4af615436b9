"""Another account of the machine, without credentials, gets nothing from Kafka and from Spark of a running stack.

The process that tries becomes the user `nobody` before its first connection, where the tests run as root. Elsewhere it
stays the same user, with nothing but the addresses.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.engine import embedded_kafka as kafka
from penstock.kafka.clients import embedded_password_file
from tests.running import Stack, kafka_access, read_to_end

NOBODY = 65534
AS_NOBODY = Path(__file__).with_name("other_account.py")

METADATA, FETCH, PRODUCE, DESCRIBE_CLUSTER = 3, 1, 0, 60


def try_all(**asked: object) -> dict[str, object]:
    """What the other account gets: see `other_account.py`."""
    ran = subprocess.run(
        [sys.executable, str(AS_NOBODY), json.dumps(asked)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    got: dict[str, object] = json.loads(ran.stdout)
    assert got.pop("uid") == (NOBODY if os.geteuid() == 0 else os.geteuid())
    return got


def request(api: int, version: int, body: bytes, *, flexible: bool = False) -> str:
    """A request of Kafka's protocol as it is sent, in hexadecimal."""
    header = struct.pack(">hhih", api, version, 7, -1) + (b"\0" if flexible else b"")
    return (struct.pack(">i", len(header) + len(body)) + header + body).hex()


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def of_topic(topic: str, *rest: bytes) -> bytes:
    """An array of one topic, which has an array of one partition, the first."""
    return struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, 0) + b"".join(rest)


LIST = request(METADATA, 1, struct.pack(">i", -1))
READ = request(
    FETCH, 4, struct.pack(">iiiib", -1, 1000, 1, 2**20, 0) + of_topic("penstock.events", struct.pack(">qi", 0, 2**20))
)
WRITE = request(PRODUCE, 3, struct.pack(">hhi", -1, 1, 1000) + of_topic("penstock.routes", struct.pack(">i", 0)))
DESCRIBE = request(DESCRIBE_CLUSTER, 1, b"\0\2\0", flexible=True)


def controller_port(stack: Stack) -> int:
    for line in (stack.settings.data_dir / "kafka" / "server.properties").read_text().splitlines():
        if line.startswith("controller.quorum.voters="):
            return int(line.rpartition(":")[2])
    pytest.fail("server.properties names no controller")


def test_kafka_closes_the_connection_of_a_client_without_credentials(stack: Stack) -> None:
    clients, controller = stack.settings.kafka_port, controller_port(stack)
    asked = [[clients, LIST], [clients, READ], [clients, WRITE], [controller, LIST], [controller, DESCRIBE]]
    assert try_all(send=asked) == {"received": [""] * len(asked)}


def test_a_wrong_password_lets_a_client_do_nothing(stack: Stack) -> None:
    before = read_to_end(stack.settings, "penstock.routes")
    config = {name: value for name, value in kafka_access(stack.settings).items() if name != "sasl.password"}
    got = try_all(kafka={**config, "sasl.password": "0" * 64}, topic="penstock.routes")
    assert got == {"errors": ["_AUTHENTICATION"], "delivered": 0, "topics": []}
    assert [one.offset() for one in read_to_end(stack.settings, "penstock.routes")][: len(before)] == [
        one.offset() for one in before
    ]


def test_the_files_that_hold_credentials_are_closed(stack: Stack) -> None:
    data = stack.settings.data_dir
    files = [embedded_password_file(stack.settings), data / "kafka" / "server.properties"]
    files += sorted((data / "pki").glob("kafka-client.*"))
    assert len(files) == 4
    if os.geteuid() == 0:
        assert try_all(files=list(map(str, files))) == {"readable": []}
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}


def test_the_password_is_on_no_command_line_in_no_log_and_in_no_file_of_spark(stack: Stack) -> None:
    data, files = stack.settings.data_dir, kafka.client_files(stack.settings)
    password = embedded_password_file(stack.settings).read_text()
    supervisor = psutil.Process(stack.process.pid)
    for process in (supervisor, *supervisor.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # some come and go
            assert password not in " ".join(process.cmdline())
    meant = {*files.values(), embedded_password_file(stack.settings), data / "kafka" / "server.properties"}
    found = {path for path in data.rglob("*") if path.is_file() and password.encode() in _content(path)}
    assert found == meant
    shown = stack.penstock("status") + stack.penstock("status", "--json")
    assert str(files["librdkafka"]) in shown
    assert password not in shown + "\n".join(stack.output)


def _content(path: Path) -> bytes:
    with suppress(FileNotFoundError):  # files come and go in a running stack
        return path.read_bytes()
    return b""


def test_spark_does_not_deserialise_what_a_client_without_the_secret_sends(stack: Stack) -> None:
    ports = driver_ports(stack)
    assert len(ports) >= 3, "the gateway to Python, the driver and its blocks"
    received = try_all(send=[[port, JAVA_OBJECT.hex()] for port in ports])["received"]
    assert isinstance(received, list)
    answers = [bytes.fromhex(one).decode(errors="replace") for one in received]
    assert not [one for one in answers if CLASS in one or "ObjectInputStream" in one]
    assert len([one for one in answers if "Authentication failed" in one or "SaslMessage" in one]) == 2, answers


def driver_ports(stack: Stack) -> list[int]:
    """Every port that the pipeline's JVM listens at."""
    pipeline = psutil.Process(stack.record["components"]["pipeline"]["pid"])
    jvms = [one for one in pipeline.children(recursive=True) if "PythonGatewayServer" in " ".join(one.cmdline())]
    found = [one.laddr.port for jvm in jvms for one in jvm.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    return sorted(set(found))


CLASS = "no.such.Class"
SERIALIZED = b"\xac\xed\x00\x05sr" + text(CLASS) + struct.pack(">q", 1) + b"\x02\x00\x00xp"
"""An object of a class that there is none of, as Java writes it: whoever reads it says so."""
RPC = b"\0" + b"\1" + text("127.0.0.1") + struct.pack(">i", 1) + text("endpoint-verifier") + SERIALIZED
"""A request to an endpoint of Spark's driver: no sender, the receiver, the content."""
JAVA_OBJECT = struct.pack(">qbqi", 21 + len(RPC), 3, 7, len(RPC)) + RPC + b"\n"
"""The frame of it. The line break is for the gateway to Python, which reads lines."""
