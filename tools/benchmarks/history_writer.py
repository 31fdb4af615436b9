"""The writer of the history: processor time for each pair of an event of 1 KiB and its attempt.

    python -m tools.benchmarks.history_writer --pairs 100000 --ways local,spark

A Kafka of its own is filled with pairs; then the writer runs as a process, as `penstock dev` starts it, once for each
way: into a folder, which it writes itself, and to a URI, which Spark writes. What is counted is the process with all
below it, from its start to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from penstock.contract import attempts
from penstock.contract.attempts import AttemptRecord
from penstock.engine import embedded_kafka, java, ports
from penstock.engine.jars import jar_cache
from penstock.engine.topics import topic_setup
from penstock.kafka.clients import librdkafka_options
from penstock.settings import Settings
from tools.benchmarks.stack import Usage, usage

WORDS = [
    *("order", "invoice", "customer", "street", "berlin", "paid", "open", "express"),
    *("blue", "shirt", "large", "piece", "voucher", "return", "parcel", "warehouse"),
]


def main() -> None:
    """Prints what was measured as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--ways", default="local")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.pairs, arguments.ways.split(",")), indent=2))


def alone() -> dict[str, Any]:
    """What `make bench` shows of the writer: one run, into a folder."""
    return dict(measure()["local"])


def measure(pairs: int = 100_000, ways: list[str] | None = None) -> dict[str, Any]:
    """Each way once, on the same records."""
    with tempfile.TemporaryDirectory(prefix="penstock-writer-") as folder, kafka(Path(folder)) as settings:
        fill(settings, pairs)
        return {"pairs": pairs, **{way: write_once(settings, way, pairs) for way in ways or ["local"]}}


@contextmanager
def kafka(folder: Path) -> Iterator[Settings]:
    """The embedded Kafka with its topics, and nothing else."""
    settings = ports.resolve(Settings(port=0, data_dir=folder))
    found = java.find_java()
    command = embedded_kafka.prepare(settings, jar_cache.resolve(settings, found), found)
    with (folder / "kafka.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        asyncio.run(asyncio.wait_for(embedded_kafka.wait_until_ready(settings), 120))
        topic_setup.ensure(settings)
        yield settings
    finally:
        process.terminate()
        process.wait(60)


def fill(settings: Settings, pairs: int) -> None:
    """Stores events and attempts as ingress and dispatcher do."""
    access = {"bootstrap.servers": settings.bootstrap, **librdkafka_options(settings)}
    producer = Producer({**access, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(pairs):
        partition, ident = number % settings.partitions, str(uuid4())
        told = json.dumps({"number": number, "note": " ".join(random.choices(WORDS, k=150))}).encode()
        producer.produce("penstock.events", told[:1024], headers=_headers(ident, number), partition=partition)
        tried = attempts.encode(_attempt(ident, number, partition, number // settings.partitions))
        producer.produce("penstock.attempts", tried, partition=partition)
        if number % 1000 == 0:
            producer.flush()
    producer.flush()


def _headers(ident: str, number: int) -> list[tuple[str, str | bytes | None]]:
    moment = f"2026-11-17T12:00:00.{number % 1_000_000:06d}Z"
    named = {
        "ce_id": ident,
        "ce_source": f"/shops/{number % 200}",
        "ce_type": f"com.example.type{number % 20}",
        "ce_specversion": "1.0",
        "ce_time": moment,
        "content-type": "application/json",
        "ce_knativearrivaltime": moment,
        "ce_knativebrokerttl": "255",
        "penstock_target": "5b0f0d8e-0000-4000-8000-000000000001",
        "penstock_traceparent": f"00-{uuid4().hex}-{uuid4().hex[:16]}-00",
    }
    return [(name, value.encode()) for name, value in named.items()]


def _attempt(ident: str, number: int, partition: int, origin: int) -> AttemptRecord:
    return AttemptRecord(
        at=time.time(),
        route="77777777-0000-4000-8000-000000000001",
        partition=partition,
        origin=origin,
        id=ident,
        source=f"/shops/{number % 200}",
        type=f"com.example.type{number % 20}",
        stage="subscriber",
        attempt=1,
        destination="http://sink.default.svc.cluster.local/",
        result="delivered",
        latency=random.random() / 100,
        status=202,
        kind="Trigger",
        namespace="default",
        name="orders",
    )


def write_once(settings: Settings, way: str, pairs: int) -> dict[str, Any]:
    """One run of the writer into tables of its own."""
    folder = settings.data_dir / f"data-{way}"
    folder.mkdir()
    uri = f"{'file://' if way == 'spark' else ''}{folder / 'history'}"
    file = folder / "settings.json"
    file.write_text(settings.model_copy(update={"data_dir": folder, "history_uri": uri}).model_dump_json())
    began = time.monotonic()
    with (folder / "writer.log").open("wb") as log:
        command = [sys.executable, "-m", "penstock.engine.history.run_batch", "--settings", str(file)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        cpu, mib = watched(process)
    if process.returncode:
        raise RuntimeError((folder / "writer.log").read_text()[-2000:])
    found = {
        "cpu_us_per_pair": round(1e6 * cpu / pairs, 1),
        "cpu_seconds": round(cpu, 1),
        "seconds": round(time.monotonic() - began, 1),
        "mib": round(mib),
        "bytes_per_pair": round(sum(f.stat().st_size for f in (folder / "history").rglob("*.parquet")) / pairs),
    }
    print(f"{way}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


def watched(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Processor time and largest memory of a process with all below it, until it ends."""
    found = [Usage()]
    while process.poll() is None:
        found.append(usage(process.pid))
        time.sleep(0.05)
    return max(one.cpu_seconds for one in found), max(one.rss_mib for one in found)


if __name__ == "__main__":
    main()
