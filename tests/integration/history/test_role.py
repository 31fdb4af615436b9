"""The role `penstock history` as a process of its own: writes to a URI by Spark, each record once over a kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.history.reader.history import History
from penstock.kafka.clients import embedded_conf
from penstock.kafka.ranges import RangeReader
from penstock.kafka.topic_ends import KafkaAway
from penstock.settings import Settings
from tests.integration.history.topics_of_test import send_attempts, send_events
from tests.waiting import eventually
from tools.cluster.processes import tied

pytestmark = pytest.mark.long

KIND = "role"
SLOW_SECONDS = 300
HALTING = """
import os, time
from penstock.cli import app
from penstock.history.writer.batches import Batches

plain = Batches.__init__

def halt():
    open(os.environ["HALTED"], "w").close()
    time.sleep(3600)

def halting(self, *arguments, **options):
    plain(self, *arguments, **{**options, "before_commit": halt})

Batches.__init__ = halting
app()
"""
"""`penstock` whose writer of the history halts when it has written, before it commits, and tells so by a file."""


@pytest.fixture
def settings(kafka: Settings, tmp_path: Path) -> Settings:
    """A history of its own, by a URI, on the Kafka of all tests."""
    own = {"history_uri": (tmp_path / "history").as_uri(), "data_dir": tmp_path}
    return kafka.model_copy(update={**own, "kafka": kafka.bootstrap, "kafka_conf": embedded_conf(kafka)})


@contextlib.contextmanager
def role(settings: Settings, *program: str, halted: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The role at work, as the command or as another program; ended at last, if the test has not done so."""
    flags = ["--data-dir", str(settings.data_dir), "--kafka", settings.bootstrap, "--health-port", "0"]
    flags += ["--set", f"history_uri={settings.history_uri}", "--partitions", str(settings.partitions)]
    flags += ["--set", f"kafka_conf={json.dumps(settings.kafka_conf)}"]
    with (
        tied([sys.executable, *(program or ("-m", "penstock.cli")), "history", *flags]) as (command, fds),
        (settings.data_dir / "role.log").open("ab") as log,
    ):
        env = {**os.environ, "HALTED": str(halted)}
        process = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=fds, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def uncommitted(folder: Path) -> set[Path]:
    """Files of rows that no version of the table names."""
    written = {path.relative_to(folder) for path in folder.glob("day=*/*.parquet")}
    lines = [line for log in folder.glob("_delta_log/*.json") for line in log.read_text().splitlines()]
    return written - {Path(json.loads(line)["add"]["path"]) for line in lines if '"add"' in line}


def nobody(_: Settings) -> RangeReader:
    """In place of Kafka: so that only the tables answer."""
    raise KafkaAway("not asked")


def test_each_record_once_when_the_role_is_killed_between_writing_and_committing(
    settings: Settings, tmp_path: Path
) -> None:
    ids = send_events(settings, 400, KIND)
    send_attempts(settings, ids, broken=True)
    halted = tmp_path / "halted"
    with role(settings, "-c", HALTING, halted=halted) as killed:
        eventually(lambda: halted.exists() or killed.poll() is not None, SLOW_SECONDS)
        assert halted.exists(), (tmp_path / "role.log").read_text()[-2000:]
        assert uncommitted(tmp_path / "history" / "events")
        killed.kill()
        killed.wait()
    with role(settings) as process:

        def written() -> bool:
            with History(settings) as history:
                return all(state.version is not None and state.behind == 0 for state in history.state())

        eventually(written, SLOW_SECONDS, every=1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    with History(settings, connect=nobody) as history:
        events = history.sql(f"select id from events where type = '{KIND}'").to_pylist()
        attempts = history.sql(f"select id, record from attempts where id like '{KIND}-%'").to_pylist()
        assert history.without_kafka is not None
    assert Counter(row["id"] for row in events) == Counter(ids)
    assert Counter(row["id"] for row in attempts) == Counter(ids)
