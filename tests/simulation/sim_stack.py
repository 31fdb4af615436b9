"""The processes of penstock, as they are started, and started again, on the simulated machine.

What runs in them is penstock itself. In place of what is outside of it there are the API (a double that admits, stores
and watches), Kafka, Spark and the subscribers; of the ingress, which is HTTP for the most part, there is what writes
events and follows the routes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.contract.records import record_of, travelling
from penstock.contract.snapshot import Snapshot
from penstock.controllers import service as controllers
from penstock.dispatcher import dispatcher
from penstock.dispatcher import task as dispatcher_task
from penstock.dispatcher.cursors import partition
from penstock.dispatcher.cursors.cursor import Cursor
from penstock.dispatcher.service import DispatcherService
from penstock.engine import hanging_transactions, pipeline
from penstock.engine.roles import claim
from penstock.engine.topics import topic_setup
from penstock.events.event import CloudEvent
from penstock.kafka import clients, watchdog
from penstock.kafka.claims import NoEpoch
from penstock.kafka.events import EventWriter, NoRoom, NotStored
from penstock.kafka.fences import RouterSuperseded
from penstock.kafka.reports import Reporter
from penstock.kafka.routes import PublisherSuperseded
from penstock.kafka.table import SnapshotFollower
from penstock.kafka.transactions import Fenced, StoppedWaiting
from penstock.kube.kinds import Key
from penstock.observability.instruments import record_metrics
from penstock.router import service as router_service
from penstock.router.generations.generations import CannotStop, GenerationFailed
from penstock.router.service import RouterService, SparkGone
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.runtime.tasks import TaskScope
from penstock.settings import IN_CLUSTER, Settings
from tests.simulation.sim_clients import AdminClient, Consumer, Producer
from tests.simulation.sim_kafka import SimKafka
from tests.simulation.sim_machine import (
    PROCESS,
    EndedItself,
    Machine,
    Process,
    current,
    end_this_process,
    living_process,
)
from tests.simulation.sim_network import Network
from tests.simulation.sim_spark import SimSpark
from tests.simulation.sim_threads import install
from tests.unit.controllers.api_double import ApiDouble

EXPECTED = (
    CannotStop,
    EndedItself,
    Fenced,
    GenerationFailed,
    StoppedWaiting,
    NoEpoch,
    PublisherSuperseded,
    Py4JError,
    RouterSuperseded,
    SparkGone,
    TimeoutError,
    pipeline.DeliversNothing,
    pipeline.MorePartitions,
)
"""What a process may end by."""
STORE_SECONDS = 5.0
CLOSE_SECONDS = 2.0
SPAN = f"00-{1:032x}-{1:016x}-00"
"""In which every event comes."""
KEPT_LEVELS = ("error", "exception", "warning", "info")


@dataclass(frozen=True)
class LogLine:
    """What a process has logged."""

    at: float
    process: str
    level: str
    said: str

    def __str__(self) -> str:
        return f"{self.at:9.3f} {self.process:14} {self.level}: {self.said}"


class HearsReports(Protocol):
    """What hears what processes report."""

    def loss(self, route: str, partition: int, first: int, last: int) -> None:
        """Events were gone before a route got them."""

    def shut_out(self, partition: int, generation: int, fence: int, *, at_work: bool) -> None:
        """Records of a generation do not count; `at_work`: routing goes by it now."""


@dataclass
class Stack:
    """All processes, and what outlives them."""

    machine: Machine
    kafka: SimKafka
    settings: Settings
    network: Network
    hears: HearsReports
    executors: int = 0
    """Of a cluster; none: Spark is local."""
    processes: dict[str, Process] = field(default_factory=dict)
    """The newest of each role."""
    sparks: list[SimSpark] = field(default_factory=list)
    ingress: Ingress | None = None
    ends: list[tuple[str, BaseException]] = field(default_factory=list)
    """Processes that ended by themselves, and what by."""
    log: list[LogLine] = field(default_factory=list)
    _starts: int = 0
    _at_work: set[Process] = field(default_factory=set)
    """Those that have the role which only one may have."""
    _lifecycles: dict[Process, Lifecycle] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.api = ApiDouble(self.settings)
        self.machine.stack = self

    @property
    def roles(self) -> tuple[str, ...]:
        """What is to run. On a cluster others stand by."""
        stand_by = ("pipeline beside", "control beside")[: self.executors]
        return ("control", "ingress", "pipeline", *stand_by)

    def start(self, role: str) -> None:
        """Starts a process of a role."""
        self._starts += 1
        mains = {"control": self._control, "ingress": self._run_ingress, "pipeline": self._pipeline}
        process = self.machine.start(f"{role} {self._starts}", mains[role.partition(" ")[0]])
        process.at_end.append(self._ended)
        self.processes[role] = process

    def at_work(self, role: str) -> Process:
        """The process that has the role."""
        beside = self.processes.get(f"{role} beside")
        return beside if beside is not None and beside in self._at_work else self.processes[role]

    def stop(self, role: str) -> bool:
        """Tells the process at work to end in order; false if there is none."""
        lifecycle = self._lifecycles.get(self.at_work(role))
        if lifecycle is None or lifecycle.stopping.is_set():
            return False
        self.at_work(role).context.copy().run(lifecycle.stopping.set)
        return True

    def send(self, broker: Key, event: CloudEvent, done: Callable[[Exception | None], None]) -> None:
        """Hands an event to the ingress, if there is one; what is not stored is not answered."""
        process = self.processes["ingress"]
        if self.ingress is not None and not process.ended and not process.frozen:
            with contextlib.suppress(NoRoom, NotStored):
                process.context.copy().run(self.ingress.store, broker, event, done)

    def routes_by(self, generation: int) -> bool:
        """Whether the newest pipeline routes by a generation, and has not stopped it."""
        queries = self.sparks[-1].queries if self.sparks else []
        return any(query.generation == generation and query.runs for query in queries)

    def all_processes(self) -> list[Process]:
        """Whatever runs."""
        found = list(self.processes.values())
        for spark in self.sparks:
            found += [spark.jvm, *(one.process for one in spark.executors), *spark.workers.values()]
        return [process for process in dict.fromkeys(found) if not process.ended]

    def end(self) -> None:
        """Ends everything, and starts nothing any more."""
        for process in self.all_processes():
            process.at_end.clear()
            process.kill()

    def defects(self) -> list[str]:
        """Processes that ended by what never should happen."""
        ends = [(name, problem.__cause__ or problem) for name, problem in self.ends]
        return [f"{name} ended by {cause!r}" for name, cause in ends if not isinstance(cause, EXPECTED)]

    def note(self, level: str, event: MutableMapping[str, Any]) -> None:
        """A process logs something."""
        process = living_process()
        if process is not None and level in KEPT_LEVELS:
            said = str(event.pop("event"))
            details = ", ".join(f"{name}={value}" for name, value in event.items() if name != "exc_info")
            self.log.append(LogLine(self.machine.now, process.name, level, f"{said} ({details})" if details else said))

    def _ended(self, process: Process) -> None:
        self._at_work.discard(process)
        self._lifecycles.pop(process, None)
        if process.problem is not None:
            self.ends.append((process.name, process.problem))

    # --- what runs in them ---------------------------------------------------------------------------------------

    def _begin(self) -> tuple[Process, Lifecycle]:
        process, lifecycle = PROCESS.get(), Lifecycle()
        assert process is not None
        self._lifecycles[process] = lifecycle
        return process, lifecycle

    async def _control(self) -> None:
        process, lifecycle = self._begin()
        async with self._holding("control", lifecycle) as epoch:
            if epoch is not None:
                self._at_work.add(process)
                await controllers.run(self.settings.model_copy(update={"kubeconfig": IN_CLUSTER}), lifecycle)

    async def _run_ingress(self) -> None:
        _, lifecycle = self._begin()
        self.ingress = Ingress(self.settings)
        await self.ingress.run(lifecycle)

    async def _pipeline(self) -> None:
        process, lifecycle = self._begin()
        async with self._holding("pipeline", lifecycle) as epoch:
            if epoch is None:
                return
            self._at_work.add(process)
            settings = await asyncio.to_thread(topic_setup.with_actual_partitions, self.settings)
            place = {"executors": self.executors, "number": len(self.sparks)}
            spark: Any = SimSpark(self.machine, self.kafka, settings, **place, ended=self._ended)
            self.sparks.append(spark)
            process.at_end.append(lambda _: spark.end())
            services: dict[str, pipeline.Service] = {
                "router": RouterService(spark, settings, end_this_process, epoch=epoch),
                "dispatcher": DispatcherService(spark, settings, epoch=epoch),
            }
            await pipeline._serve(spark, services, settings, lifecycle)

    @contextlib.asynccontextmanager
    async def _holding(self, role: str, lifecycle: Lifecycle) -> AsyncIterator[int | None]:
        """Of a stack on one machine no other process wants the role."""
        if self.executors:
            async with claim.hold_role(role, self.settings, lifecycle) as epoch:
                yield epoch
        else:
            yield await claim._only_instance(role, self.settings)


class Ingress:
    """What takes events: it knows the targets, writes, and says when an event is stored."""

    def __init__(self, settings: Settings) -> None:
        self._scope, process = TaskScope(), PROCESS.get()
        self._events = EventWriter(settings, "ingress", self._scope.fail, timeout_seconds=STORE_SECONDS)
        self._reporter = Reporter(settings, "ingress", process.name if process else "", self._scope.fail)
        self._follower = SnapshotFollower(settings, self._announce, self._scope.fail)
        self._snapshot = Snapshot()

    async def run(self, lifecycle: Lifecycle) -> None:
        """Works until it fails or is told to stop."""
        self._follower.start()
        await first(self._scope.failed(), lifecycle.stopping.wait())
        await self._events.close(CLOSE_SECONDS)
        for close in (self._follower.stop, self._reporter.close):
            await asyncio.to_thread(close)

    def _announce(self, snapshot: Snapshot) -> None:
        self._scope.hand_over(self._apply, snapshot)

    def _apply(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._reporter.ack(snapshot.version)

    def store(self, broker: Key, event: CloudEvent, done: Callable[[Exception | None], None]) -> None:
        """Takes an event for a Broker that it knows. Raises NoRoom or NotStored."""
        for target in self._snapshot.targets.values():
            if (target.namespace, target.name) == broker:
                along = travelling(target.uid.encode(), {}, SPAN, None)
                self._events.store([record_of(event, along)], done)


# --- in place of the real things -------------------------------------------------------------------------------------


def connect() -> None:
    """Puts what is simulated in the place of the real things, for good."""
    install()
    record_metrics(False)
    structlog.configure(processors=[_log])
    _listen()
    for place, name, stand_in in (
        (clients, "Producer", Producer),
        (clients, "Consumer", Consumer),
        (clients, "AdminClient", AdminClient),
        (watchdog, "_end_process", lambda client: end_this_process()),
        (router_service, "launch", lambda spark, settings, table, number, at: spark.launch(table, number, at)),
        (router_service, "attempt", lambda spark, routes: None),
        (router_service, "sweep", lambda settings: None),
        (partition, "RECORDS_PER_BOUND", 3),  # logs are short here
        (dispatcher, "LOOK_AHEAD_RECORDS", 60),
        (dispatcher_task, "SubscriberClient", lambda *_: current().stack.network.client()),
        (controllers, "read_config", lambda kubeconfig: None),
        (controllers, "AsyncClient", lambda *_, **__: current().stack.api),
        (pipeline, "kill_process_tree", end_this_process),
        (claim, "kill_process_tree", end_this_process),
        (claim, "instance_name", lambda role: str(getattr(PROCESS.get(), "name", role))),
        (hanging_transactions, "_end", _end_hanging),
        (topic_setup, "_reached", lambda settings: True),
        (ssl.SSLContext, "load_verify_locations", lambda *_, **__: None),  # which takes long, and nothing connects
        # Cursors are kept in sets, whose order would depend on where they lie in memory.
        (Cursor, "__hash__", lambda cursor: zlib.crc32(cursor.route.encode())),
    ):
        if not hasattr(place, name):
            raise AttributeError(f"{place} has no {name} any more")
        setattr(place, name, stand_in)


def _log(_: Any, method: str, event: MutableMapping[str, Any]) -> str:
    if Machine.running is not None and Machine.running.stack is not None:
        Machine.running.stack.note(method, event)
    raise structlog.DropEvent


def _end_hanging(_: object, settings: Settings, suspects: list[tuple[str, int]]) -> int:
    """What the pipeline has Java's client do."""
    kafka: SimKafka = current().kafka
    for topic, number in suspects:
        kafka.abort_hanging(kafka.partition(topic, number))
    return len(suspects)


def _listen() -> None:
    """Has the stack hear what its processes report."""
    report_loss, report_shut_out = Reporter.loss, Reporter.shut_out

    def loss(self: Reporter, route: str, partition: int, first: int, last: int) -> None:
        report_loss(self, route, partition, first, last)
        if living_process() is not None:
            current().stack.hears.loss(route, partition, first, last)

    def shut_out(self: Reporter, partition: int, generation: int, fence: int) -> None:
        report_shut_out(self, partition, generation, fence)
        if living_process() is not None:
            stack: Stack = current().stack
            stack.hears.shut_out(partition, generation, fence, at_work=stack.routes_by(generation))

    Reporter.loss, Reporter.shut_out = loss, shut_out  # type: ignore[method-assign]
