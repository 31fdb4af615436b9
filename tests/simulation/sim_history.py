"""A history: a story that happens to a stack, and what came of it.

First the steps, each at its time; what ends is started again, as a supervisor does. Then whatever went wrong ceases,
and within a bound of time nothing may be left that waits.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.contract import topics
from penstock.contract.routes import route_of_key
from penstock.events.event import CloudEvent
from penstock.kube.kinds import BROKER, REPLAY, TRIGGER, Key
from penstock.resources.conditions import READY, find
from penstock.runtime.times import rfc3339_of
from penstock.settings import Settings
from tests.simulation.sim_kafka import SimKafka
from tests.simulation.sim_machine import Machine, Process, Stuck
from tests.simulation.sim_network import Network, Subscriber
from tests.simulation.sim_oracle import DEFECT, STUCK, Broken, Life, Oracle, Rule
from tests.simulation.sim_stack import Stack
from tests.simulation.sim_story import EVERYTHING, TYPES, Step, Story

NAMESPACE, BROKER_NAME = "ns", "broker"
KEYS = ("", "k1", "k2", "k3")
"""Of events; those with the first have none."""
LOOK_SECONDS = 0.25
"""How often users look at what they have asked for."""
BOUND_SECONDS = 1200.0
"""Within which everything must be done once nothing goes wrong any more: what a driver has lost sight of goes on for
300 s, and policies wait for minutes."""
MOST_ENDS = 100
"""Processes that end by themselves again and again do so for ever."""
STILL_SECONDS = 10.0
"""For how long more it is looked on after that."""


@dataclass(frozen=True)
class Outcome:
    """What came of a history."""

    story: Story
    broken: list[Broken]
    happened: Counter[str]
    """Steps that had an effect, by what they are called in the table."""
    events: int
    deliveries: int
    seconds: float
    """By its own clock."""
    digest: str
    """The same for the same history."""
    log: list[str]


def happen(story: Story) -> Outcome:
    """Lets a story happen."""
    history = History(story)
    try:
        history.machine.run(history.tell())
    except Stuck as problem:
        history.oracle.broken.append(Broken(STUCK, str(problem)))
    return history.outcome()


class History:
    """One that happens."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.machine = Machine(story.seed)
        self.kafka = SimKafka(self.machine, story.partitions, self._is_flushed, embedded=not story.executors)
        settings = Settings(
            kafka="simulated:9092",
            history=False,
            partitions=story.partitions,
            drain_seconds=2,
            delivery_timeout_seconds=5,
            **dict(story.settings),
        )
        self.network = Network(self.machine)
        self.oracle = Oracle(self.kafka, self.network)
        self.stack = Stack(self.machine, self.kafka, settings, self.network, self.oracle, executors=story.executors)
        self._happened: Counter[str] = Counter()
        self._chance = self.machine.chance("history")
        self._lives: dict[str, Life] = {}
        """Triggers by name, the newest of each."""
        self._replays: list[Life] = []
        self._sent = self._to_send = 0

    def _is_flushed(self, topic: str, asked: bool) -> bool:
        return asked and (self.story.notes_flushed or topic not in (topics.REPORTS, topics.CLAIMS))

    async def tell(self) -> None:
        """Everything, in its order."""
        self.stack.api.apply(BROKER, {"metadata": {"name": BROKER_NAME, "namespace": NAMESPACE}, "spec": {}})
        for role in self.stack.roles:
            self.stack.start(role)
        others = [asyncio.create_task(self._supervise()), asyncio.create_task(self._look_at_statuses())]
        for step in self.story.steps:
            await asyncio.sleep(max(0.0, step.at - self.machine.now))
            if self._do(step) is not False:
                self._happened[f"{step.kind} {step.what}" if step.kind in NAMED else step.kind] += 1
        self._cease()
        await self._settle()
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.stack.end()
        await asyncio.sleep(0.1)

    def outcome(self) -> Outcome:
        """What came of it."""
        defects = [Broken(DEFECT, what) for what in (*self.stack.defects(), *self.machine.defects)]
        attempts = self.network.attempts
        seen = [self.oracle.stored(), attempts, self.oracle.losses, self.machine.switches, self.machine.now]
        return Outcome(
            self.story,
            self.oracle.verdict() + defects,
            self._happened,
            len(self.oracle.stored()),
            sum(attempt.answered == 200 for attempt in attempts),
            self.machine.now,
            hashlib.sha256(repr(seen).encode()).hexdigest()[:16],
            list(map(str, self.stack.log)),
        )

    # --- those who act all the time ------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        """Starts again what has ended."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.0))
            for role in self.stack.roles:
                if self.stack.processes[role].ended:
                    self.stack.start(role)

    async def _look_at_statuses(self) -> None:
        """Users look whether what they have asked for is Ready, or over."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for life in self._lives.values():
                rule = life.rules[-1]
                if rule.ready is None and not life.deleted and self._is_ready(life.name):
                    rule.ready = self.machine.now
            for replay in self._replays:
                if not replay.over and not replay.deleted:
                    self._look_at_replay(replay)

    def _is_ready(self, name: str) -> bool:
        found = self.stack.api.peek(TRIGGER, NAMESPACE, name) or {}
        status = found.get("status") or {}
        ready = find(status.get("conditions"), READY) or {}
        return ready.get("status") == "True" and status.get("observedGeneration") == found["metadata"]["generation"]

    def _look_at_replay(self, replay: Life) -> None:
        status = (self.stack.api.peek(REPLAY, NAMESPACE, replay.name) or {}).get("status") or {}
        if status.get("completionTime"):
            completed = find(status.get("conditions"), "Completed") or {}
            replay.over, replay.deleted = True, completed.get("status") != "True"

    # --- what users do -------------------------------------------------------------------------------------------

    def _do(self, step: Step) -> bool | None:
        """Does a step; false if it has no effect."""
        done: bool | None = getattr(self, "_" + step.kind.replace(" ", "_"))(step)
        return done

    def _create(self, step: Step) -> bool:
        if step.what in self._lives and not self._lives[step.what].deleted:
            return False
        number = len(self.oracle.lives)
        subscriber, sink = f"s{number}", f"d{number}"
        self.network.subscribers[subscriber] = Subscriber(subscriber, replies=step["replies"])
        self.network.subscribers[sink] = Subscriber(sink)
        delivery: dict[str, Any] = {"retry": step["retry"], "backoffPolicy": "linear", "backoffDelay": "PT0.3S"}
        if step["dead_letter"]:
            delivery["deadLetterSink"] = {"uri": f"http://{sink}/"}
        annotations = {"penstock.dev/ordering": "key"} if step["ordered"] else {}
        if step["past"]:
            annotations["penstock.dev/start-from"] = "earliest"
        spec = {"broker": BROKER_NAME, "subscriber": {"uri": f"http://{subscriber}/"}, "delivery": delivery}
        spec |= _filter(step["types"], step["dialect"])
        made = self.stack.api.apply(TRIGGER, {"metadata": self._metadata(step.what, annotations), "spec": spec})
        life = Life(
            step.what,
            made["metadata"]["uid"],
            subscriber,
            self.machine.now,
            [Rule(step["types"], self.machine.now)],
            step["ordered"],
            step["retry"],
            sink if step["dead_letter"] else "",
            step["past"],
        )
        self._lives[step.what] = life
        self.oracle.lives.append(life)
        return True

    def _metadata(self, name: str, annotations: dict[str, str]) -> dict[str, Any]:
        made = rfc3339_of(int(self.machine.wall))
        return {"name": name, "namespace": NAMESPACE, "annotations": annotations, "creationTimestamp": made}

    def _delete(self, step: Step) -> bool:
        life = self._living(step.what)
        if life is None:
            return False
        self.stack.api.remove(TRIGGER, Key(NAMESPACE, step.what))
        for one in (life, *(replay for replay in self._replays if replay.rules is life.rules)):
            one.deleted = True
        return True

    def _living(self, name: str) -> Life | None:
        life = self._lives.get(name)
        return None if life is None or life.deleted else life

    def _change(self, name: str, change: Callable[[dict[str, Any]], None]) -> Life | None:
        life = self._living(name)
        if life is not None:
            found = self.stack.api.get(TRIGGER, NAMESPACE, name) or {}
            change(found)
            self.stack.api.apply(TRIGGER, found)
        return life

    def _filter(self, step: Step) -> bool:
        def change(found: dict[str, Any]) -> None:
            found["spec"].pop("filters", None)
            found["spec"].pop("filter", None)
            found["spec"].update(_filter(step["types"], "any"))

        life = self._change(step.what, change)
        if life is not None and life.rules[-1].types != step["types"]:
            life.rules.append(Rule(step["types"], self.machine.now))
        return life is not None

    def _pause(self, step: Step, paused: str = "true") -> bool:
        def change(found: dict[str, Any]) -> None:
            found["metadata"].setdefault("annotations", {})["penstock.dev/paused"] = paused

        return self._change(step.what, change) is not None

    def _resume(self, step: Step) -> bool:
        return self._pause(step, "false")

    def _replay(self, step: Step) -> bool:
        life = self._living(step.what)
        if life is None:
            return False
        name = f"replay-{len(self._replays)}"
        spec = {"target": {"kind": "Trigger", "name": step.what, "apiVersion": TRIGGER.api_version}}
        made = self.stack.api.apply(REPLAY, {"metadata": self._metadata(name, {}), "spec": spec})
        replay = Life(
            name,
            made["metadata"]["uid"],
            f"{life.subscriber}#{name}",
            self.machine.now,
            life.rules,
            life.ordered,
            life.retry,
            f"{life.dead_letter}#{name}" if life.dead_letter else "",
            past=True,
            replays=True,
        )
        self._replays.append(replay)
        self.oracle.lives.append(replay)
        return True

    # --- what senders and subscribers do -------------------------------------------------------------------------

    def _send(self, step: Step) -> None:
        for _ in range(step["count"]):
            self._to_send += 1
            self.machine.later(self._chance.uniform(0.0, step["seconds"] + 0.01), self._send_one)

    def _send_one(self) -> None:
        self._to_send -= 1
        self._sent += 1
        ident = f"e{self._sent}"
        attributes = {"specversion": "1.0", "id": ident, "source": "/sim", "type": self._chance.choice(TYPES)}
        if key := self._chance.choice(KEYS):
            attributes["partitionkey"] = key

        def done(problem: Exception | None) -> None:
            if problem is None:
                self.oracle.accepted.add(ident)

        self.network.sent[ident] = self.machine.now
        self.stack.send(Key(NAMESPACE, BROKER_NAME), CloudEvent(attributes, b"{}"), done)

    def _subscriber(self, step: Step) -> bool:
        life = self._living(step.what)
        if life is None:
            return False
        replies = self.network.subscribers[life.subscriber].replies
        self.network.subscribers[life.subscriber] = Subscriber(life.subscriber, replies=replies, **dict(step.how))
        return True

    # --- what goes wrong -----------------------------------------------------------------------------------------

    def _victims(self, what: str) -> list[Process]:
        spark = self.stack.sparks[-1] if self.stack.sparks else None
        match what:
            case "jvm":
                found = [spark.jvm] if spark else []
            case "worker":
                found = list(spark.workers.values()) if spark else []
                found = [self._chance.choice(found)] if found else []
            case "executor":
                found = [self._chance.choice(spark.executors).process] if spark else []
            case _ if what == EVERYTHING:
                started = [spark.jvm, *spark.workers.values()] if spark else []
                found = [self.stack.at_work("pipeline"), *started]
            case _:
                found = [self.stack.at_work(what)]
        return [process for process in found if not process.ended]

    def _kill(self, step: Step) -> bool:
        victims = self._victims(step.what)
        for process in victims:
            process.kill()
        return bool(victims)

    def _stop(self, step: Step) -> bool:
        return self._kill(step) if step.what in ("jvm", "worker", "executor") else self.stack.stop(step.what)

    def _freeze(self, step: Step) -> bool:
        victims = [process for process in self._victims(step.what) if not process.frozen]
        for process in victims:
            process.freeze(step["seconds"])
        return bool(victims)

    def _power_loss(self, _: Step) -> None:
        for process in self.stack.all_processes():
            process.kill()
        self.machine.later(0.0, self.kafka.lose_power)
        self.kafka.away_until = max(self.kafka.away_until, self.machine.now + self._chance.uniform(0.5, 3.0))

    def _kafka_away(self, step: Step) -> None:
        self.kafka.away_until = self.machine.now + step["seconds"]

    def _unwritable(self, step: Step) -> None:
        partitions = self.kafka.topics[f"penstock.{step.what}"].partitions
        partitions[step["partition"] % len(partitions)].unwritable_until = self.machine.now + step["seconds"]

    def _unreliable(self, step: Step) -> None:
        self.kafka.unreliable_until = self.machine.now + step["seconds"]

    def _retention(self, step: Step) -> None:
        for partition in self.kafka.topics[f"penstock.{step.what}"].partitions:
            how = dict(step.how)
            partition.remove_before(partition.end - how["left"] if "left" in how else partition.part(how["part"]))

    def _compact(self, _: Step) -> None:
        self.kafka.compact()

    def _clock(self, step: Step) -> None:
        self.machine.set_by += step["seconds"]

    def _widen(self, _: Step) -> None:
        self.kafka.widen(len(self.kafka.topics[topics.EVENTS].partitions) + 1)

    def _garbage(self, step: Step) -> bool:
        """Another program writes what is of no use to penstock; to the routes, under the key of one."""
        key = None
        if step.what == "routes":
            life = self._living(step["route"])
            if life is None:
                return False
            life.past = True  # where it began stands nowhere else
            key = f"route/{life.uid}".encode()
            assert route_of_key(key.decode()) == life.uid
        partition = self.kafka.topics[f"penstock.{step.what}"].partitions[0]
        self.kafka.append(partition, key, b"\xff{", None)
        return True

    # --- the end -------------------------------------------------------------------------------------------------

    def _cease(self) -> None:
        """Nothing goes wrong any more, and all that was paused goes on."""
        self.kafka.away_until = self.kafka.unreliable_until = 0.0
        for partition in self.kafka.each():
            partition.unwritable_until = 0.0
        for process in self.stack.all_processes():
            process.wake()
        for name, subscriber in self.network.subscribers.items():
            self.network.subscribers[name] = Subscriber(name, replies=subscriber.replies)
        for name in self._lives:
            self._resume(Step(self.machine.now, "resume", name))
        self._send(Step(self.machine.now, "send", how=(("count", 4), ("seconds", 1.0))))

    async def _settle(self) -> None:
        until = self.machine.now + BOUND_SECONDS
        await asyncio.sleep(2.0)
        while left := self._left():
            if self.machine.now > until or len(self.stack.ends) > MOST_ENDS:
                self.oracle.broken += [Broken(STUCK, one) for one in left]
                return
            await asyncio.sleep(1.0)
        await asyncio.sleep(STILL_SECONDS)

    def _left(self) -> list[str]:
        """What is still to be done."""
        unsent = [f"{self._to_send} events are not sent"] if self._to_send else []
        unready = [
            f"{life.name} is not Ready"
            for life in self._lives.values()
            if not life.deleted and not life.rules[-1].ready
        ]
        running = [f"{replay.name} is not over" for replay in self._replays if not replay.over and not replay.deleted]
        return [*unsent, *unready, *running, *self.oracle.waiting()]


NAMED = ("kill", "freeze", "stop", "unwritable", "retention", "garbage")
"""Steps that go by their victims in the table."""


def _filter(types: str, dialect: str) -> dict[str, Any]:
    """The same events in one of the dialects."""
    match dialect:
        case "exact" if len(types) == 1:
            return {"filter": {"attributes": {"type": types}}}
        case "cesql":
            return {"filters": [{"cesql": f"type IN ({', '.join(repr(one) for one in types)})"}]}
        case _:
            return {"filters": [{"any": [{"exact": {"type": one}} for one in types]}]}
