"""Faults of Kafka itself: too few replicas to store anything, and a leader that lacks confirmed records."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from penstock.contract.topics import EVENTS
from tools.chaos.books import Sent
from tools.chaos.checker import Lost
from tools.chaos.events import parse
from tools.chaos.recovery import clock
from tools.cluster.blows import Blow
from tools.cluster.installation import PENSTOCK, Installation
from tools.cluster.kafka import KafkaCluster
from tools.cluster.processes import Program

AWAY_SECONDS = 180.0
SETTLED_SECONDS = 5.0
"""After the last broker has stopped: what it had stored may still be answered."""
BEHIND_SECONDS = 15.0
REFUSED_SECONDS = 300.0
END_SECONDS = 240.0
REPLY_SECONDS = 60.0
"""A reply is stored so long after its event, or sooner."""
REFUSED = "is not the log that routes and cursors refer to"
READERS = ("control-1", "control-2", "pipeline-1", "pipeline-2")
"""Roles that have to be stopped while a log is adopted."""


class KafkaFaults:
    """Strikes against brokers and what they have on disk."""

    def __init__(
        self, folder: Path, installation: Installation, kafka: KafkaCluster, sent: Sent, say: Callable[[str], None]
    ) -> None:
        self._folder, self._installation, self._kafka, self._sent, self._say = folder, installation, kafka, sent, say
        self.cut: list[tuple[float, float]] = []
        """What was accepted between these moments is in no log any more."""

    async def below_min_insync(self) -> Blow:
        """Two of three brokers are stopped in order: nothing can be stored, and nothing may be answered with 202."""
        blow = Blow(f"stopped for {AWAY_SECONDS:g} s", "two of three brokers", clock(), planned=True)
        away = self._kafka.brokers[1:]
        for broker in away:
            await asyncio.to_thread(broker.stop)
        await asyncio.sleep(SETTLED_SECONDS)
        before, since = self._sent.count, clock()
        await asyncio.sleep(AWAY_SECONDS)
        accepted = self._sent.count - before
        self._say(f"          {accepted} events answered with 202 in {clock() - since:.0f} s without enough replicas")
        for broker in away:
            self._kafka.start(broker)
        await asyncio.to_thread(self._kafka.wait, len(self._kafka.brokers))
        if accepted:
            raise RuntimeError(f"{accepted} events were answered with 202 while two of three brokers were stopped")
        return blow

    async def unclean_election(self) -> Blow:
        """The log of events is what a replica has that was behind. The pipelines have to refuse it until it is adopted.

        All brokers end, and the files of that replica replace those of the others, as when they had been lost: what
        is confirmed and missing is the same as after the election of that replica.
        """
        *others, behind = self._kafka.brokers
        blow = Blow("has lost confirmed events, and was adopted", "the log of events", clock(), planned=True)
        await asyncio.to_thread(behind.stop)
        begin = clock()
        await asyncio.sleep(BEHIND_SECONDS)
        for broker in others:
            await asyncio.to_thread(broker.kill)
        self.cut.append((begin, clock()))
        replace_log([broker.folder / "log" for broker in others], behind.folder / "log", EVENTS)
        for broker in self._kafka.brokers:
            self._kafka.start(broker)
        await asyncio.to_thread(self._kafka.wait, len(self._kafka.brokers))
        refused = await self._refused()
        self._say(f"          refused after {clock() - self.cut[-1][1]:.0f} s: {refused[:300]}")
        await self._adopt()
        return blow

    async def _refused(self) -> str:
        """What a pipeline says of the log. Raises TimeoutError where none refuses it."""
        async with asyncio.timeout(REFUSED_SECONDS):
            while True:
                for name in ("pipeline-1", "pipeline-2"):
                    if said := refusal(self._installation.roles[name].program.last_words(100)):
                        return said
                await asyncio.sleep(0.5)

    async def _adopt(self) -> None:
        """As docs/operations.md says: every control and pipeline is stopped meanwhile."""
        self._installation.hit.update(READERS)
        programs = {name: self._installation.roles[name].program for name in READERS}
        for program in programs.values():
            program.send(signal.SIGTERM)
        for program in programs.values():
            await program.ended(END_SECONDS)
        administrator = {"PENSTOCK_KAFKA": self._kafka.plain}  # penstock's own user may not delete topics
        adopting = Program("adopt", self._folder, [PENSTOCK, "topics", "--adopt-events"], administrator)
        await adopting.start()
        if code := await adopting.ended(END_SECONDS):
            raise RuntimeError(f"the log was not adopted ({code}):\n{adopting.last_words()}")
        for program in programs.values():
            await program.start()
        for name in READERS:
            await self._installation.wait(name)

    def forgotten(self, lost: Lost) -> bool:
        """Whether the event was accepted while the replica was behind that the log was taken from."""
        number, reply = parse(lost.id) or (0, False)
        at = self._sent.accepted[number]
        return any(begin - (REPLY_SECONDS if reply else 0.0) <= at <= end for begin, end in self.cut)


def refusal(text: str) -> str | None:
    """The line in which a pipeline refuses the log of events."""
    return next((line.strip() for line in reversed(text.splitlines()) if REFUSED in line), None)


def replace_log(logs: list[Path], source: Path, topic: str) -> None:
    """Puts one replica's files of a topic in place of those that brokers have that do not run."""
    for folder in source.glob(f"{topic}-[0-9]*"):
        for log in logs:
            shutil.rmtree(log / folder.name, ignore_errors=True)
            shutil.copytree(folder, log / folder.name)
