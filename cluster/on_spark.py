"""`python -m cluster.on_spark [--only NAME,…]`: a stack whose tasks run on a standalone Spark, hit under load.

The second of its two Workers has none of the project's files (see `standalone_spark.py`), and after the first was
killed everything runs there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import objects
from chaos import checker, routes
from chaos.books import Books
from chaos.load import Load
from chaos.receiver import Receiver
from chaos.recovery import Recovery, clock
from cluster.faults import Blow
from cluster.processes import Program
from cluster.run import RECOVERY_SECONDS, ROUTES, STEADY_SECONDS, Outcome, Result, expectations, line
from cluster.spark_faults import SparkFaults
from cluster.standalone_spark import StandaloneSpark
from penstock.engine import java
from penstock.log.tasks.task_reports import REPORT_SECONDS

READY_SECONDS = 300.0


class OnSpark:
    """The stack, the Spark it runs on, and everything beside them."""

    def __init__(self, folder: Path, rate: float, only: set[str], say: Callable[[str], None]) -> None:
        self._say, self._only = say, only
        self._data = folder / "data"
        self._spark = StandaloneSpark(folder / "spark", java.find(), (self._data,))
        self._stack = Program("stack", folder / "stack", self._command())
        self.result = Result()
        self.counted = 0.0
        """Deliveries that /metrics shows: tasks on executors must have told them."""
        self._books = Books()
        self._recovery = Recovery(self._books.sent, routes.HEALTHY)
        self._receiver = Receiver(self._books, random.Random(1), self._recovery.delivered)
        self._load = Load(self._books.sent, rate, self._ingress_url, self._recovery.accepted)
        self._expected = expectations()

    async def run(self) -> Result:
        """From start to verdict."""
        began = clock()
        await self._receiver.start()
        await self._spark.start()
        await self._stack.start()
        await self._ready()
        self._say(f"  {clock() - began:5.0f} s  the stack is ready on {self._spark.url}")
        await asyncio.to_thread(_make_routes, self._data / "kubeconfig", self._receiver.port)
        self.result.start_seconds = clock() - began
        self._say(f"  {self.result.start_seconds:5.0f} s  every route is Ready; events flow")
        async with asyncio.TaskGroup() as tasks:
            self._load.start(tasks)
            await asyncio.sleep(STEADY_SECONDS)
            for name, strike in SparkFaults(self._spark).strikes().items():
                if not self._only or name in self._only:
                    await self._watch(await self._struck(strike))
            await asyncio.wait_for(self._load.stop(), RECOVERY_SECONDS)
        await self._drain()
        self.counted = await asyncio.to_thread(self._count_delivered)
        self.result.seconds = clock() - began
        self.result.findings = checker.check(self._books, self._expected)
        self.result.accepted, self.result.deliveries = self._books.sent.count, self._books.deliveries
        self.result.refused = dict(self._books.sent.refused)
        return self.result

    async def close(self) -> None:
        """Ends everything."""
        await self._stack.stop()
        await self._spark.stop()
        self._receiver.close()

    def _command(self) -> list[str]:
        flags = [
            "--data-dir",
            str(self._data),
            "--port",
            "0",
            "--spark-master",
            self._spark.url,
            "--set",
            "partitions=1",
        ]
        return [str(Path(sys.executable).with_name("penstock")), "dev", *flags]

    def _record(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._data / "run" / "stack.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    def _ingress_url(self) -> str:
        return f"http://127.0.0.1:{self._record()['ports']['port']}"

    def _count_delivered(self) -> float:
        url = f"http://127.0.0.1:{self._record()['ports']['metrics_port']}/metrics"
        time.sleep(2 * REPORT_SECONDS)
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if line.startswith("penstock_events_delivered_total{")
        )

    async def _ready(self) -> None:
        deadline = clock() + READY_SECONDS
        while self._record().get("state") != "ready":
            if not self._stack.runs or clock() > deadline:
                said = self._stack.output.read_text(errors="replace").splitlines()[-30:]
                raise RuntimeError("the stack is not ready:\n" + "\n".join(said))
            await asyncio.sleep(0.2)

    async def _struck(self, strike: Callable[[], Any]) -> Blow:
        self._recovery.begin(clock())
        blow: Blow = await strike()
        return blow

    async def _watch(self, blow: Blow) -> None:
        self._recovery.watch(blow.struck)
        recovered = await self._recovery.wait(RECOVERY_SECONDS)
        if recovered is None:
            raise RuntimeError(f"{blow.victim} {blow.what}: nothing new was delivered for {RECOVERY_SECONDS:g} s")
        outcome = Outcome(blow.what, blow.victim, None, recovered - blow.struck, self._recovery.silence)
        self.result.outcomes.append(outcome)
        self._say(line(outcome))
        if blow.mended is not None:
            await blow.mended()
        await asyncio.sleep(STEADY_SECONDS)

    async def _drain(self) -> None:
        deadline = clock() + RECOVERY_SECONDS
        while clock() < deadline:
            await asyncio.sleep(1)
            if not any(True for one in self._expected for _ in checker.lost(self._books, one)):
                return


def _make_routes(kubeconfig: Path, port: int) -> None:
    api = objects.Api(kubeconfig)
    api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": routes.NAMESPACE}}])
    urls = routes.Urls(port, {})
    made = [routes.BROKER, routes.CHANNEL_OBJECT, *(routes.manifest(route, urls) for route in ROUTES)]
    api.create(made, routes.NAMESPACE)
    for plural in ("brokers", "channels", "triggers", "subscriptions"):
        names = {obj["metadata"]["name"] for obj in made if f"{obj['kind'].lower()}s" == plural}
        api.await_ready(plural, names, limit=180, namespace=routes.NAMESPACE)


def main() -> int:
    """1 if a promise was broken; the logs are kept then."""
    parser = argparse.ArgumentParser(prog="cluster.on_spark", description=__doc__)
    parser.add_argument("--only", default="", help="faults to try: executor, frozen-executor, worker (default: all)")
    parser.add_argument("--rate", type=float, default=30, help="events a second (default: 30)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-on-spark-"))  # elsewhere than the files that a Worker must not see
    only = {name for name in arguments.only.split(",") if name}
    one = OnSpark(folder, arguments.rate, only, lambda text: print(text, file=sys.stderr, flush=True))
    result = uvloop.run(_run(one))
    print(f"{result.accepted:,} events accepted, {result.deliveries:,} deliveries, refused: {result.refused}")
    print(f"ready after {result.start_seconds:.0f} s, all of it in {result.seconds:.0f} s")
    print(f"/metrics counts {one.counted:,.0f} deliveries")
    if result.broken or not one.counted:
        print("\n".join(["", "BROKEN:", *result.broken, f"logs are in {folder}"]))
        return 1
    print("nothing was lost, and every promise kept")
    shutil.rmtree(folder, ignore_errors=True)
    return 0


async def _run(one: OnSpark) -> Result:
    try:
        return await one.run()
    finally:
        await one.close()


if __name__ == "__main__":
    sys.exit(main())
