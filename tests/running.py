"""Running the real things in tests: a whole stack, an embedded Kafka; and waiting for what they do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from penstock.engine import embedded_kafka as kafka
from penstock.engine import java, ports
from penstock.engine.jars import jar_cache
from penstock.engine.topics import topic_setup
from penstock.kafka.clients import librdkafka_options, topic_name
from penstock.runtime.sockets import bound_socket
from penstock.settings import Settings
from tools.cluster.processes import tied

STACK_READY_SECONDS = 300
STACK_STOP_SECONDS = 180
KAFKA_READY_SECONDS = 180
"""A machine may be slow, or pause: these only end what would never end."""

_HELD: list[socket.socket] = []
"""Ports of this process's tests, until it ends."""


@dataclass(frozen=True)
class Stack:
    """A running stack and how to speak to it."""

    settings: Settings
    """Resolved: every port is a number."""
    process: subprocess.Popen[str]
    output: list[str]
    """What it has printed."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.settings.data_dir / "kubeconfig"

    @property
    def record(self) -> dict[str, Any]:
        """What runs now, as `penstock status` reads it."""
        record: dict[str, Any] = json.loads((self.settings.data_dir / "run" / "stack.json").read_bytes())
        return record

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 120) -> str:
        """Runs kubectl against this stack and returns what it printed; with `check` its failure fails the test."""
        ran = subprocess.run(
            [kubectl_program(), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and ran.returncode != 0:
            pytest.fail(f"kubectl {' '.join(arguments)} failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
        return ran.stdout if check else ran.stdout + ran.stderr

    def command(self, *arguments: str) -> list[str]:
        """The command line of `penstock` for this stack."""
        return [sys.executable, "-m", "penstock.cli", *arguments, "--data-dir", str(self.settings.data_dir)]

    def penstock(self, *arguments: str, code: int = 0) -> str:
        """Runs `penstock` for this stack and returns what it printed; another exit code fails the test."""
        ran = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=180, check=False)
        assert ran.returncode == code, (ran.stdout, ran.stderr)
        return ran.stdout

    def apply(self, manifest: str) -> str:
        """`kubectl apply` of a manifest given as text."""
        return self.kubectl("apply", "-f", "-", stdin=manifest)

    def logs(self) -> str:
        """The end of what the stack printed and of each component's log."""
        parts = ["--- penstock dev", *self.output[-40:]]
        for path in sorted((self.settings.data_dir / "logs").glob("*.log")):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-25:]]
        return "\n".join(parts)


def kubectl_program() -> str:
    """kubectl from the PATH. A machine without it fails these tests: passing without having looked helps nobody."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.fail("The integration tests need kubectl on the PATH (1.31 or newer).")
    return found


def held_ports(count: int) -> list[int]:
    """Ports at which nobody listens, and that nobody else is given until these tests end.

    Who listens at one sets SO_REUSEADDR, as servers do: then a socket that is bound and does not listen is in nobody's
    way. Until then connections are refused.
    """
    holders = [bound_socket("127.0.0.1", 0) for _ in range(count)]
    _HELD.extend(holders)
    return [int(holder.getsockname()[1]) for holder in holders]


def with_held_ports(settings: Settings) -> Settings:
    """The settings with a port of their own for everything that listens."""
    fields = [port.field for port in ports.needed(settings)]
    return settings.model_copy(update=dict(zip(fields, held_ports(len(fields)), strict=True)))


def start_stack(data_dir: Path, *flags: str, python: str = sys.executable) -> Stack:
    """Starts `penstock dev` with free ports and waits until it says that it is ready.

    `python` may have another version of penstock.
    """
    chosen = [f"{port.field}={number}" for port, number in zip(ports.PORTS, held_ports(len(ports.PORTS)), strict=True)]
    free = [word for one in chosen for word in ("--set", one)]
    command = [python, "-m", "penstock.cli", "dev", *free, "--data-dir", str(data_dir), *flags]
    env = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with tied(command) as (command, fds):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, pass_fds=fds
        )
    output: list[str] = []
    ready, ended = threading.Event(), threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line.rstrip("\n"))
            if line.startswith("penstock is ready"):
                ready.set()
        ended.set()
        process.stdout.close()

    threading.Thread(target=read, daemon=True).start()
    deadline = time.monotonic() + STACK_READY_SECONDS
    while not ready.wait(0.05):
        if ended.is_set() or time.monotonic() > deadline:
            stop_process(process)
            said = "\n".join(output)
            logs = Stack(Settings(data_dir=data_dir), process, output).logs()
            pytest.fail(f"the stack did not become ready (exit code {process.poll()}):\n{said}\n{logs}", pytrace=False)
    resolved = json.loads((data_dir / "run" / "settings.json").read_bytes())
    known = {name: value for name, value in resolved.items() if name in Settings.model_fields}
    return Stack(Settings(**known), process, output)


def stop_process(process: subprocess.Popen[str]) -> float:
    """Stops a stack as Ctrl-C does and returns the seconds it took."""
    began = time.monotonic()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STACK_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return time.monotonic() - began


@contextlib.contextmanager
def running_kafka(settings: Settings, jar_folders: jar_cache.Jars) -> Iterator[subprocess.Popen[bytes]]:
    """The embedded Kafka of these settings, ready and with its topics."""
    command = kafka.prepare(settings, jar_folders, java.find_java())
    with (settings.data_dir / "kafka.log").open("ab") as log, tied(command) as (command, fds):
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, pass_fds=fds
        )
    try:
        asyncio.run(asyncio.wait_for(kafka.wait_until_ready(settings), KAFKA_READY_SECONDS))
        topic_setup.ensure(settings)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kafka_access(settings: Settings) -> dict[str, Any]:
    """What a client of librdkafka needs to be let in to the Kafka of these settings."""
    return {"bootstrap.servers": settings.bootstrap, **librdkafka_options(settings)}


def read_to_end(settings: Settings, topic: str, seconds: float = 60.0) -> list[Message[bytes, bytes]]:
    """Everything that is committed in a topic of the contract, partition by partition in order."""
    topic = topic_name(settings, topic)
    consumer = Consumer(
        {
            **kafka_access(settings),
            "group.id": "test",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
        }
    )
    # Asked for also because an assignment to a topic that the client does not know starts half a second late.
    places = consumer.list_topics(topic, 60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in places])
    found: list[Message[bytes, bytes]] = []
    ends, deadline = 0, time.monotonic() + seconds
    while ends < len(places):
        message = consumer.poll(1)
        problem = None if message is None else message.error()
        if message is not None and problem is None:
            found.append(message)
        elif problem is not None and problem.code() == KafkaError._PARTITION_EOF:
            ends += 1
        elif time.monotonic() > deadline:
            pytest.fail(f"{topic} was not read to its end within {seconds:g} s: {problem}")
    consumer.close()
    return found


def headers_of(message: Message[bytes, bytes]) -> dict[str, bytes]:
    """The headers of a record that have a value, as all of penstock's have."""
    return {name: value for name, value in dict(message.headers() or []).items() if isinstance(value, bytes)}
