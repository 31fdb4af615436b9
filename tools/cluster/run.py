"""One run: brokers, API, Spark and roles, their routes, load, faults one after the other, and the check at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from penstock.engine import java
from penstock.engine.jars import jar_cache
from penstock.kafka.task_reports import REPORT_SECONDS
from penstock.settings import Settings
from tools.benchmarks import objects
from tools.chaos import checker, routes
from tools.chaos.books import Books
from tools.chaos.checker import Era, Expected, Lost
from tools.chaos.events import CHANNEL_ANSWER
from tools.chaos.load import Load
from tools.chaos.receiver import Receiver
from tools.chaos.recovery import Recovery, clock
from tools.cluster import yardstick
from tools.cluster.blows import Blow, Strike
from tools.cluster.changes import Changes
from tools.cluster.faults import Faults
from tools.cluster.gaps import Gaps
from tools.cluster.installation import USER, Installation
from tools.cluster.kafka import KafkaCluster, running_cluster
from tools.cluster.kafka_faults import KafkaFaults
from tools.cluster.kubernetes import RealApi, real_api
from tools.cluster.results import Outcome, Result
from tools.cluster.spark_faults import SparkFaults
from tools.cluster.standalone_spark import StandaloneSpark

RECOVERY_SECONDS = 300.0
DRAIN_SECONDS = 300.0
STEADY_SECONDS = 5.0
ROUTES = tuple(route for route in routes.STEADY if route.name in routes.HEALTHY)
AS_IT_COMES = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "controller.quorum.fetch.timeout.ms": "6000",
    "controller.quorum.election.timeout.ms": "3000",
}
"""Brokers as Kafka sets them up, but that two cores are to bear three of them: few partitions, and controllers that
wait longer for one another before they elect another."""
DEFAULT = ("control", "broker", "executor", "frozen-executor", "pipeline", "worker", "ingress", "frozen-pipeline")
MORE = (
    "frozen-driver",
    "stop-control",
    "stop-pipeline",
    "foreign-control",
    "more-partitions",
    "below-min-insync",
    "unclean-election",
)
"""Faults, and changes that people make, that are tried when they are asked for."""


def expectations() -> list[Expected]:
    """What each subscriber is to get: the routes', and those that their answers go to."""
    answers = [route.reply_to for route in ROUTES if route.reply_to is not None]
    return [
        *(Expected(route.name, [Era(route.types)], route.ordered) for route in ROUTES),
        *(Expected(name, [Era(frozenset({CHANNEL_ANSWER}))]) for name in answers),
    ]


class Run:
    """Everything that runs beside the cluster, in one event loop."""

    def __init__(
        self, folder: Path, rate: float, only: tuple[str, ...], most_seconds: float, say: Callable[[str], None]
    ) -> None:
        self._folder, self._only, self._most_seconds, self._say = folder, only, most_seconds, say
        self._began = clock()
        self._servers = ExitStack()
        """Brokers, etcd and the API server; started in the main thread, with whose end they are killed."""
        self._spark: StandaloneSpark | None = None
        self._installation: Installation | None = None
        self._kafka_faults: KafkaFaults | None = None
        self.result = Result()
        self._books = Books()
        self._gaps = Gaps()
        self._recovery = Recovery(self._books.sent, routes.HEALTHY)
        self._receiver = Receiver(self._books, random.Random(1), self._delivered)
        self._load = Load(self._books.sent, rate, self._ingress_url, self._recovery.accepted)
        self._expected = expectations()

    async def run(self) -> Result:
        """From start to verdict."""
        installation, strikes = await self._start()
        async with asyncio.TaskGroup() as tasks:
            self._load.start(tasks)
            keeping = tasks.create_task(installation.keep())
            await asyncio.sleep(STEADY_SECONDS)
            slow = await yardstick.slowness()
            for strike in strikes:
                if clock() - self._began > self._most_seconds:
                    self._say("the time is up: no further faults")
                    self.result.left_out.append(f"{len(strikes) - len(self.result.outcomes)} faults, for want of time")
                    break
                slow = await self._one(installation, strike, slow)
            await asyncio.wait_for(self._load.stop(), RECOVERY_SECONDS)
            await self._drain()
            await asyncio.sleep(2 * REPORT_SECONDS)
            self.result.counted = await installation.delivered()
            keeping.cancel()
        self._conclude(installation)
        return self.result

    async def close(self) -> None:
        """Ends everything."""
        if self._installation is not None:
            await self._installation.stop()
        if self._spark is not None:
            await self._spark.stop()
        self._servers.close()
        self._receiver.close()

    async def _start(self) -> tuple[Installation, list[Strike]]:
        await self._receiver.start()
        found = java.find_java()
        self._spark = StandaloneSpark(self._folder / "spark", found, (self._folder / "roles",))
        self.result.left_out += self._spark.left_out
        await self._spark.start()
        kafka, api = self._serve(found)
        self._tell("three brokers, an API server and a standalone Spark are up")
        self._installation = Installation(self._folder / "roles", api, kafka, self._spark)
        self._installation.install()
        self._tell("penstock is installed")
        await self._installation.start()
        self._tell("every role serves or stands by")
        await asyncio.to_thread(self._prepare, self._installation.kubeconfig)
        self.result.start_seconds = clock() - self._began
        self._tell("every route is Ready; events flow")
        return self._installation, self._faults(self._installation, kafka, self._spark)

    def _serve(self, found: java.Java) -> tuple[KafkaCluster, RealApi]:
        files = jar_cache.resolve(Settings(), found)
        brokers = running_cluster(self._folder / "kafka", files, brokers=3, properties=AS_IT_COMES)
        kafka = self._servers.enter_context(brokers)
        kafka.allow(USER)
        (self._folder / "api").mkdir()
        return kafka, self._servers.enter_context(real_api(self._folder / "api"))

    def _tell(self, what: str) -> None:
        self._say(f"  {clock() - self._began:5.0f} s  {what}")

    def _ingress_url(self) -> str:
        assert self._installation is not None
        return self._installation.ingress_url

    def _faults(self, installation: Installation, kafka: KafkaCluster, spark: StandaloneSpark) -> list[Strike]:
        faults, spark_faults = Faults(installation, kafka), SparkFaults(spark, self._receiver.port)
        changes = Changes(self._folder / "changes", installation)
        self._kafka_faults = KafkaFaults(
            self._folder / "kafka-faults", installation, kafka, self._books.sent, self._say
        )
        every: dict[str, Strike] = {
            "control": faults.kill_control,
            "broker": faults.kill_broker,
            "executor": spark_faults.kill_executor,
            "frozen-executor": spark_faults.freeze_executor,
            "pipeline": faults.kill_pipeline,
            "worker": spark_faults.kill_worker,
            "ingress": faults.kill_ingress,
            "frozen-pipeline": faults.freeze_pipeline,
            "frozen-driver": faults.freeze_driver,
            "stop-control": faults.stop_control,
            "stop-pipeline": faults.stop_pipeline,
            "foreign-control": changes.foreign_control,
            "more-partitions": changes.grow,
            "below-min-insync": self._kafka_faults.below_min_insync,
            "unclean-election": self._kafka_faults.unclean_election,
        }
        return [every[name] for name in self._only or DEFAULT]

    async def _one(self, installation: Installation, strike: Strike, slow_before: float) -> float:
        """One fault, and how slow the machine was after it."""
        self._gaps.begin(clock())
        blow = await strike()
        await self._flows(blow)
        if blow.mended is not None:
            await blow.mended()
        installation.hit.clear()
        await asyncio.sleep(STEADY_SECONDS)
        await self._flows(blow)
        pause, over = self._gaps.longest, self._gaps.ended
        slow = await yardstick.slowness()
        outcome = Outcome(
            blow.what,
            blow.victim,
            blow.take_over,
            over - blow.struck,
            pause,
            max(slow, slow_before),
            planned=blow.planned,
        )
        self.result.outcomes.append(outcome)
        self._say(outcome.row)
        return slow

    async def _flows(self, blow: Blow) -> None:
        """Waits until an event is delivered that was accepted from now on."""
        now = clock()
        self._recovery.begin(now)
        self._recovery.watch(now)
        if await self._recovery.wait(RECOVERY_SECONDS) is None:
            raise RuntimeError(f"{blow.victim} {blow.what}: nothing new was delivered for {RECOVERY_SECONDS:g} s")

    def _delivered(self, subscriber: str, number: int, now: float) -> None:
        if subscriber in routes.HEALTHY:
            self._gaps.delivered(now)
        self._recovery.delivered(subscriber, number, now)

    async def _drain(self) -> None:
        deadline = clock() + DRAIN_SECONDS
        while clock() < deadline:
            await asyncio.sleep(1)
            if all(self._forgotten(lost) for one in self._expected for lost in checker.lost(self._books, one)):
                return

    def _forgotten(self, lost: Lost) -> bool:
        return self._kafka_faults is not None and self._kafka_faults.forgotten(lost)

    def _conclude(self, installation: Installation) -> None:
        self.result.seconds = clock() - self._began
        found = self.result.findings = checker.check(self._books, self._expected)
        self.result.forgotten = len({one.id for one in found.lost if self._forgotten(one)})
        found.lost = [one for one in found.lost if not self._forgotten(one)]
        self.result.accepted, self.result.deliveries = self._books.sent.count, self._books.deliveries
        self.result.refused = dict(self._books.sent.refused)
        self.result.restarted = installation.restarted

    def _prepare(self, kubeconfig: Path) -> None:
        api = objects.Api(kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": routes.NAMESPACE}}])
        urls = routes.Urls(self._receiver.port, {})
        made = [routes.BROKER, routes.CHANNEL_OBJECT, *(routes.manifest(route, urls) for route in ROUTES)]
        api.create(made, routes.NAMESPACE)
        for plural in ("brokers", "channels", "triggers", "subscriptions"):
            names = {obj["metadata"]["name"] for obj in made if f"{obj['kind'].lower()}s" == plural}
            api.await_ready(plural, names, limit=RECOVERY_SECONDS, namespace=routes.NAMESPACE)
