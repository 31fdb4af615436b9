"""Spark, as far as penstock asks it for anything: a query that routes, and tasks that deliver.

`SimQuery` reads `penstock.events` from where it is told, decides by the very table that the real query gets, and writes
through `JavaProducer`. What is assumed of it is little: it routes each partition in order, in a task of its own. A task
begins when it likes, may be slow, and may go on after its query was stopped: on an executor that the driver has lost
sight of it does so for minutes. A producer belongs to its executor, not to a query, so what a stopped task has handed
over is written all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.contract import records as headers
from penstock.contract import topics
from penstock.dispatcher import worker
from penstock.events import kafka_binding
from penstock.events.event import REQUIRED
from penstock.filters.evaluate import matches
from penstock.filters.normal import Atom
from penstock.filters.predicate import COMPARE
from penstock.kafka.clients import spark_producer_options
from penstock.router.generations.generations import CannotStop
from penstock.router.generations.positions import StartOffsets
from penstock.router.plan.route_index import Bucket, Candidate, RouteTable
from penstock.router.plan.routing import MILESTONE
from penstock.settings import Settings
from tests.simulation.sim_kafka import Headers, Partition, Record, SimKafka
from tests.simulation.sim_machine import Machine, Process, Strand, pause, wait

STOP_SECONDS = 10.0
"""How long the driver waits for tasks that do not end."""
ORPHANED_SECONDS = 0.5
"""After which a Python worker ends whose executor is gone."""

# --- the producer ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Waiting:
    """A record that is to be written."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    deadline: float
    expired: Callable[[], None]
    written: bool = False
    """Whether it was, and the answer got lost."""


class JavaProducer:
    """The Java client, with the options that a query has.

    Records of a partition are written in the order in which they were handed over. One that could not be written within
    `delivery.timeout.ms` expires, while those after it are written: which is why that time must not be limited.
    """

    def __init__(self, kafka: SimKafka, process: Process, options: Mapping[str, str]) -> None:
        self._kafka, self._process, self._machine = kafka, process, kafka.machine
        self._timeout = int(options.get("kafka.delivery.timeout.ms", "120000")) / 1000
        idempotent = options.get("kafka.enable.idempotence", "true") == "true"
        self._in_order = idempotent or options.get("kafka.max.in.flight.requests.per.connection", "5") == "1"
        self._chance = self._machine.chance(f"producer of {process.name}")
        self._queues: dict[Partition, deque[_Waiting]] = {}
        self._is_sending = False
        process.at_end.append(self._die)

    def send(
        self, partition: Partition, key: bytes | None, value: bytes | None, pairs: Headers, expired: Callable[[], None]
    ) -> None:
        """Takes a record; calls `expired` if it is given up."""
        waiting = _Waiting(value, key, pairs, self._machine.now + self._timeout, expired)
        self._queues.setdefault(partition, deque()).append(waiting)
        self._send_after(self._chance.uniform(0.0005, 0.004))

    def _send_after(self, seconds: float) -> None:
        if not self._is_sending:
            self._is_sending = True
            self._process.later(seconds, self._send)

    def _send(self) -> None:
        self._is_sending = False
        for partition, queue in self._queues.items():
            while queue and queue[0].deadline <= self._machine.now:
                queue.popleft().expired()
            self._write_all(partition, queue)
        if any(self._queues.values()):
            self._send_after(0.05)

    def _write_all(self, partition: Partition, queue: deque[_Waiting]) -> None:
        put_off: list[_Waiting] = []
        while queue and self._kafka.takes_records(partition) and not (put_off and self._in_order):
            waiting = queue.popleft()
            if self._kafka.loses_message():
                put_off.append(waiting)
                continue
            if not waiting.written:
                self._write(partition, waiting)
            if self._kafka.loses_message():
                put_off.append(waiting)
        queue.extendleft(reversed(put_off))

    def _write(self, partition: Partition, waiting: _Waiting) -> None:
        self._kafka.append(partition, waiting.key, waiting.value, waiting.headers)
        waiting.written = True

    def _die(self, _: Process) -> None:
        """Some of what was on its way arrives all the same."""
        for partition, queue in self._queues.items():
            arriving = self._chance.choice([0, 0, 1, 2, 5])
            while arriving and queue and self._kafka.takes_records(partition):
                arriving -= 1
                self._write(partition, queue.popleft())


# --- the query -------------------------------------------------------------------------------------------------------


class SimQuery:
    """A query of one generation: a task for each partition."""

    def __init__(self, spark: SimSpark, table: RouteTable, generation: int, start: StartOffsets) -> None:
        self.table, self.generation, self._spark, self.slowness = table, generation, spark, spark.slowness
        self._stopped, self._problem = False, ""
        self._tasks = [_Task(self, spark.executor_of(number), number, at) for number, at in enumerate(start.offsets)]

    def alive(self) -> bool:
        """As the router asks its query."""
        try:
            self._spark.ask()
        except Py4JError:
            return False
        return self.runs

    @property
    def runs(self) -> bool:
        """Whether it does, as far as its driver knows."""
        return not self._stopped and not self._problem and not self._task_died()

    def _task_died(self) -> bool:
        return any(task.process.ended for task in self._tasks)

    def reason(self) -> str:
        """Why it ended."""
        return self._problem or ("a task failed" if self._task_died() else "it was stopped")

    def stop(self) -> None:
        """Ends it. Raises CannotStop where a task goes on as far as the driver sees."""
        self._stopped = True
        with contextlib.suppress(Py4JError):  # its tasks end with it
            self._spark.ask()
        for task in self._tasks:
            task.stop(lives_on=self._spark.loses_sight())
        deadline = self._spark.machine.now + STOP_SECONDS
        while any(task.goes_on for task in self._tasks):
            if self._spark.machine.now >= deadline:
                raise CannotStop("tasks of the query did not end")
            pause(0.02)

    def fail(self, problem: str) -> None:
        """A task has ended by an exception; the others are told to end."""
        self._problem = self._problem or problem
        for task in self._tasks:
            task.stop(lives_on=False)


class _Task:
    """What routes one partition."""

    def __init__(self, query: SimQuery, executor: Executor, number: int, position: int) -> None:
        self._query, self._executor, self._number, self._position = query, executor, number, position
        self._machine, self._kafka, self.process = executor.machine, executor.kafka, executor.process
        self._events = self._kafka.partition(topics.EVENTS, number)
        self._runs, self._is_forgotten, self._waits = True, False, False
        self._chance = self._machine.chance(f"task {query.generation}/{number}")
        self._pace = self._chance.choice([0.002, 0.01, 0.05])
        self.process.later(query.slowness * self._chance.uniform(0.1, 1.5), self._step)

    def stop(self, *, lives_on: bool) -> None:
        """It is told to end. One that the driver has lost sight of goes on for a while."""
        if lives_on and self._runs:
            self._is_forgotten = True
            self._machine.later(self._chance.choice([5.0, 60.0, 300.0]), self._end)
        elif not self._is_forgotten:
            self.process.later(0.0, self._end)  # one that is frozen does when it wakes

    @property
    def goes_on(self) -> bool:
        """Whether the driver sees that it has not ended."""
        return self._runs and not self._is_forgotten and not self.process.ended

    def _end(self) -> None:
        self._runs = False

    def wake(self) -> None:
        """There is something new in the partition."""
        if self._waits:
            self._waits = False
            self._events.waiting.remove(self)
            self.process.later(self._chance.uniform(0.0005, self._pace), self._step)

    def _step(self) -> None:
        """Routes some events, and waits for more."""
        if not self._runs:
            return
        if self._kafka.away:
            self.process.later(0.1, self._step)
            return
        if not self._events.first <= self._position <= self._events.end:
            self._query.fail(f"offset {self._position} of partition {self._number} is gone")
            return
        for count, record in enumerate(self._events.read(self._position)):
            if count >= self._chance.randint(1, 8):
                self.process.later(self._chance.uniform(0.0, self._pace), self._step)
                return
            self._position = record.offset + 1
            self._route(record)
        self._waits = True
        self._events.waiting.append(self)

    def _route(self, record: Record) -> None:
        found = dict(record.headers or ())
        is_event = all(found.get(name) for name in (headers.TARGET, *(kafka_binding.PREFIX + one for one in REQUIRED)))
        is_marker = headers.TARGET not in found and headers.MARKER in found
        uids = wanted(self._query.table, found, self._number, record.offset) if is_event else []
        if is_event and not uids and record.offset % MILESTONE != MILESTONE - 1:
            return
        added: Headers = [
            (headers.ORIGIN, str(record.offset).encode()),
            (headers.ROUTES, ",".join(uids).encode()),
            (headers.GENERATION, str(self._query.generation).encode()),
        ]
        topic = topics.MATCHED if is_marker or is_event else topics.UNREADABLE
        partition = self._kafka.partition(topic, self._number)
        pairs = [*(record.headers or ()), *added]
        self._executor.producer.send(partition, record.key, record.value, pairs, self._expired)

    def _expired(self) -> None:
        """The real task notices when it writes the next record."""
        self._query.fail("a record expired")


def wanted(table: RouteTable, stored: Mapping[str, bytes | None], partition: int, offset: int) -> list[str]:
    """The routes that want an event, by the table of a query."""
    target = (stored[headers.TARGET] or b"").decode()
    attributes = kafka_binding.from_headers(list(stored.items()), None).attributes

    def holds(atom: Atom) -> bool:
        text = attributes.get(atom.attribute)
        match atom.op:
            case _ if text is None:
                found = False
            case "exact":
                found = text == atom.value
            case "present":
                found = bool(text)
            case "prefix":
                found = text.startswith(atom.value)
            case "suffix":
                found = text.endswith(atom.value)
            case _:
                found = COMPARE[atom.op](float(text), float(atom.value))
        return found is not atom.negated

    def counts(candidate: Candidate) -> bool:
        begins = candidate.start[partition] if partition < len(candidate.start) else 0
        if offset < begins or not all(any(map(holds, clause)) for clause in candidate.clauses):
            return False
        return candidate.predicate is None or matches(table.predicates[candidate.predicate], attributes)

    def met() -> Iterator[Bucket]:
        for attribute, buckets in table.filed.items():
            yield from (one for one in buckets if one.target == target and one.key == attributes.get(attribute))
        yield from (one for one in table.unfiled if one.target == target)

    return list(dict.fromkeys(one.uid for bucket in met() for one in bucket.candidates if counts(one)))


# --- the session -----------------------------------------------------------------------------------------------------


@dataclass
class Executor:
    """A process in which tasks run, and its producer."""

    process: Process
    machine: Machine
    kafka: SimKafka
    producer: JavaProducer


class SimSpark:
    """A session, as the pipeline has one: of a local Spark everything is one JVM, otherwise executors are elsewhere."""

    version = "simulated"

    def __init__(
        self,
        machine: Machine,
        kafka: SimKafka,
        settings: Settings,
        *,
        executors: int,
        number: int,
        ended: Callable[[Process], None],
    ) -> None:
        """With so many `executors` elsewhere; none: a local Spark. Calls `ended` with each Python worker that has."""
        self.machine, self._kafka, self.ended = machine, kafka, ended
        self._options, self._is_local = spark_producer_options(settings), not executors
        self._chance = machine.chance(f"spark {number}")
        self.slowness = self._chance.choice([0.1, 0.1, 0.5, 1.0])
        """How long queries take to start, in parts of what they need on a busy machine."""
        self.jvm = machine.start(f"jvm {number}", asyncio.Event().wait)
        processes = [machine.start(f"executor {number}.{one}", asyncio.Event().wait) for one in range(executors)]
        self.executors = [self._executor(process) for process in processes or [self.jvm]]
        self.queries: list[SimQuery] = []
        self.workers: dict[int, Process] = {}
        """Those of the dispatcher, by their numbers."""
        self.sparkContext = _Context(self)

    def _executor(self, process: Process) -> Executor:
        return Executor(process, self.machine, self._kafka, JavaProducer(self._kafka, process, self._options))

    def executor_of(self, number: int) -> Executor:
        """Where a task runs. In place of an executor that is gone the cluster has another one."""
        place = number % len(self.executors)
        gone = self.executors[place].process
        if gone.ended and not self._is_local:
            self.executors[place] = self._executor(self.machine.start(f"{gone.name}'", asyncio.Event().wait))
        return self.executors[place]

    def loses_sight(self) -> bool:
        """Whether the driver believes that a task has ended which goes on."""
        return not self._is_local and self._chance.random() < 0.3

    def ask(self) -> None:
        """A call into the JVM: it hangs while that is frozen, and fails once it is gone."""
        while self.jvm.frozen:
            pause(0.5)
        if self.jvm.ended:
            raise Py4JError("the JVM is gone")

    def launch(self, table: RouteTable, generation: int, start: StartOffsets) -> SimQuery:
        """Starts a query."""
        self.ask()
        pause(self.slowness * self._chance.uniform(0.05, 1.0))
        self.ask()
        self.queries.append(SimQuery(self, table, generation, start))
        return self.queries[-1]

    def end(self) -> None:
        """The driver has ended. An executor that does not notice goes on for minutes."""
        self.jvm.kill()
        for executor in self.executors:
            seconds = self._chance.choice([60.0, 300.0]) if self.loses_sight() else self._chance.uniform(0.0, 3.0)
            self.machine.later(seconds, executor.process.kill)


class _Context:
    """As `SparkContext`."""

    def __init__(self, spark: SimSpark) -> None:
        self._spark, self._jsc, self.cancelled = spark, self, False
        self._waiting: deque[Strand] = deque()

    def sc(self) -> _Context:
        return self

    def isStopped(self) -> bool:  # Spark's names, here and below
        self._spark.ask()
        return False

    def statusStore(self) -> Any:
        raise Py4JError("it does not say")

    def statusTracker(self) -> Any:
        raise Py4JError("it does not say")

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        self.cancelled = False

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled = True
        for process in self._spark.workers.values():
            process.kill()
        self.look()

    def parallelize(self, indices: Sequence[int], slices: int) -> _Job:
        return _Job(self, self._spark, list(indices))

    def wait(self, seconds: float) -> None:
        """Until something has happened to the tasks, or so long."""
        wait(self._waiting, seconds)

    def look(self, *_: object) -> None:
        """Something has."""
        for thread in self._waiting:
            thread.wake()


@dataclass
class _Job:
    """The dispatcher's: a task for each number, started again as often as it dies."""

    context: _Context
    spark: SimSpark
    indices: list[int]
    ended: set[int] = field(default_factory=set)

    def foreachPartition(self, body: Any) -> None:
        run, values, _ = body.args
        self.spark.workers.clear()
        try:
            self._run(run, Settings(**values))
        finally:
            for process in self.spark.workers.values():
                process.kill()

    def _run(self, run: str, settings: Settings) -> None:
        workers = self.spark.workers
        while len(self.ended) < len(self.indices):
            self.spark.ask()
            if self.context.cancelled:
                raise Py4JError("the job was cancelled")
            for index in self.indices:
                before = workers.get(index)
                if before is not None and before.ended and before.problem is None and not before.killed:
                    self.ended.add(index)
                elif index not in self.ended and (before is None or before.ended):
                    pause(0.2)
                    workers[index] = self._start(run, settings, index)
            self.context.wait(5.0)

    def _start(self, run: str, settings: Settings, index: int) -> Process:
        process = self.spark.machine.start(f"dispatcher {index}", lambda: worker._run(run, settings, index, None))
        process.at_end += [self.context.look, self.spark.ended]
        executor = self.spark.executor_of(index).process
        executor.at_end.append(lambda _: self.spark.machine.later(ORPHANED_SECONDS, process.kill))
        return process
