"""A process is frozen while a Broker is deleted, for so long that Kafka forgets that there was a deletion."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.contract import topics
from penstock.contract.routes import Target, Version, encode, key_of
from penstock.engine import embedded_kafka
from penstock.kafka.admin import TopicAdmin
from penstock.kafka.routes import RoutesTopic
from penstock.settings import Settings
from tests.running import read_to_end, running_kafka, with_held_ports
from tests.waiting import eventually

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars

FORGETFUL = {
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "min.compaction.lag.ms": "0",
}
"""What takes Kafka an hour with penstock's limits takes it a second with these."""


def target(name: str) -> Target:
    return Target(name, "Broker", "shop", name, (f"/shop/{name}",))


@contextmanager
def follower(settings: Settings) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process that follows the routes, and what it has printed."""
    program = Path(__file__).with_name("snapshot_program.py")
    command = [sys.executable, str(program), settings.model_dump_json()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: list[str] = []

    def collect() -> None:
        assert process.stdout is not None
        lines.extend(line.strip() for line in process.stdout)

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    with process:
        try:
            yield process, lines
        finally:
            process.kill()
            collecting.join()


def deletions(settings: Settings) -> int:
    """How many records of deletions the topic still holds."""
    return sum(message.value() is None for message in read_to_end(settings, topics.ROUTES))


@pytest.mark.timeout(300)
def test_a_broker_that_was_deleted_meanwhile_is_gone_when_it_wakes(
    tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = embedded_kafka.properties
    monkeypatch.setattr(embedded_kafka, "properties", lambda *given: plain(*given) | {"log.cleaner.backoff.ms": "100"})
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("forgetful")))
    with running_kafka(settings, jar_folders):
        TopicAdmin(settings).configure({topics.ROUTES: FORGETFUL})
        topic = RoutesTopic(settings)
        version = topic.read().version

        def publish(targets: int, *changes: tuple[str, bytes | None]) -> int:
            nonlocal version
            version += 1
            topic.write(list(changes), encode(Version(version, targets=targets)))
            return version

        both = publish(2, *((key_of(one), encode(one)) for one in (target("kept"), target("deleted"))))
        with follower(settings) as (process, lines):
            eventually(lambda: f"{both} deleted kept" in lines)
            process.send_signal(signal.SIGSTOP)
            publish(2)  # what it has asked Kafka for is answered with this
            assert read_to_end(settings, topics.ROUTES)
            publish(1, ("target/deleted", None))

            def forgotten() -> bool:
                publish(1)  # a segment is cleaned when there is a newer one
                return deletions(settings) == 0

            eventually(forgotten)
            process.send_signal(signal.SIGCONT)
            newest = publish(1)
            eventually(lambda: f"{newest} kept" in lines)
            assert [line for line in lines[1:] if "deleted" in line.split()] in ([], [f"{both + 1} deleted kept"])
        topic.close()
