"""`python -m tools.benchmarks.backtest`: how fast Triggers are tried on past events, over a table that is made for it.

A million events of 1 KiB are written as the history writes them; more are the same files read again. Measured is
`backtest()` itself in a session of its own, from the question to the answer, without the start of Spark.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.backtest.trials import Trial

MILLION = 1_000_000
FILES = 8
BEGIN = datetime(2026, 11, 16, tzinfo=UTC)
TYPES = 1000


def rates(millions: int = 2) -> dict[str, Any]:
    """What `make bench` shows of backtests: events a second of each case."""
    found = measure(millions)
    return {f"{name}, events a second": one["events_per_second"] for name, one in found.items() if name in _cases()}


def measure(millions: int, *, only: set[str] | None = None) -> dict[str, Any]:
    """Events per second of each case."""
    from penstock.backtest.past_events import TableEvents
    from penstock.backtest.report import Window
    from penstock.backtest.run import backtest
    from penstock.engine import java
    from penstock.engine.batch_session import batch_session
    from penstock.engine.jars import jar_cache
    from penstock.settings import Settings

    settings = Settings()
    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        batch_session(settings, jar_cache.resolve(settings, java.find_java())) as spark,
    ):
        files = _write(spark, Path(folder, "events"))
        results["bytes_per_event"] = round(sum(Path(file).stat().st_size for file in files) / MILLION)
        window = Window(BEGIN, BEGIN + timedelta(days=1))
        backtest(TableEvents(spark, files[:1]), _exact(1), window, samples=0)
        for name, trials in _cases().items():
            if only is not None and name not in only:
                continue
            began = time.monotonic()
            report = backtest(TableEvents(spark, files * millions), trials, window)
            seconds = time.monotonic() - began
            results[name] = {
                "events": report.events,
                "seconds": round(seconds, 1),
                "events_per_second": round(report.events / seconds),
                "matched": sum(result.total.matched for result in report.results),
            }
            print(f"{name}: {json.dumps(results[name])}", flush=True)
    return results


def _cases() -> dict[str, tuple[Trial, ...]]:
    changed = _exact(1, present={"type": "type.8"})
    return {
        "1 Trigger": _exact(1),
        "1 Trigger, changed": changed,
        "1,000 Triggers": _exact(TYPES),
        "1 Trigger on data": _trials([[{"data": {"order.country": "C7"}}]]),
        "1,000 Triggers on data": _trials([[{"data": {"order.country": f"C{n}"}}] for n in range(TYPES)]),
    }


def _exact(count: int, present: dict[str, str] | None = None) -> tuple[Trial, ...]:
    return _trials([[{"exact": {"type": f"type.{number + 7}"}}] for number in range(count)], present)


def _trials(filters: list[list[dict[str, Any]]], present: dict[str, str] | None = None) -> tuple[Trial, ...]:
    from penstock.backtest.trials import trials_of
    from penstock.contract.routes import Route, Target
    from penstock.contract.snapshot import Snapshot
    from penstock.settings import Settings

    routes = {"u": Route("u", "Trigger", "default", "t0", "b", attributes=present)} if present else {}
    snapshot = Snapshot(1, {"b": Target("b", "Broker", "default", "b")}, routes)
    documents = [
        {"kind": "Trigger", "metadata": {"name": f"t{number}"}, "spec": {"broker": "b", "filters": each}}
        for number, each in enumerate(filters)
    ]
    return trials_of(documents, snapshot, Settings())


def _write(spark: SparkSession, folder: Path) -> list[str]:
    from penstock.history.schema.frames import SESSION, event_rows

    for name, value in SESSION.items():
        spark.conf.set(name, value)
    event_rows(_records(spark)).write.partitionBy("day").option("compression", "zstd").parquet(str(folder))
    return [str(path) for path in folder.rglob("*.parquet")]


def _records(spark: SparkSession) -> DataFrame:
    """A million records as the Kafka source gives them, of a thousand types, over a day."""
    from pyspark.sql import functions as F

    number = F.col("id")
    order = F.concat(
        F.lit('{"order":{"country":"C'), (number % TYPES).cast("string"), F.lit('","total":'),
        (number % 977).cast("string"), F.lit(".5}"),
    )  # fmt: skip
    digest = F.substring(F.sha2(number.cast("string"), 256), 1, 35)
    padding = [part for n in range(18) for part in (F.lit(f',"field{n}":"'), digest, F.lit('"'))]
    stored = {
        "ce_specversion": F.lit("1.0"),
        "ce_id": F.concat(F.lit("id-"), number.cast("string")),
        "ce_source": F.lit("/bench/source"),
        "ce_type": F.concat(F.lit("type."), (number % TYPES).cast("string")),
        "content-type": F.lit("application/json"),
        "ce_knativearrivaltime": F.lit("2026-11-17T00:00:00.000000000Z"),
        "ce_knativebrokerttl": F.lit("255"),
        "penstock_target": F.lit("b"),
    }
    pairs = [F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in stored.items()]
    step = 86_400_000 // MILLION
    return spark.range(0, MILLION, 1, FILES).select(
        (number % 4).cast("int").alias("partition"),
        F.expr("id div 4").alias("offset"),
        F.lit(None).cast("binary").alias("key"),
        F.concat(order, *padding, F.lit("}")).cast("binary").alias("value"),
        F.array(*pairs).alias("headers"),
        F.timestamp_millis(F.lit(int(BEGIN.timestamp() * 1000)) + number * step).alias("timestamp"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tools.benchmarks.backtest", description=__doc__)
    parser.add_argument("--millions", type=int, default=10, help="millions of events (default 10)")
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.millions, only=set(arguments.case) if arguments.case else None), indent=2))
