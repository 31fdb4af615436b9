"""The subscribers, and the network between them and the dispatcher.

A subscriber takes what comes, slowly or not, fails now and then, hangs, refuses, is away for a while, or answers with
an event. What it answers depends on the seed, the event and how often that came, and on nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from penstock.dispatcher.http.connection import NoConnection, NoResponse, SubscriberResponse
from tests.simulation.sim_machine import PROCESS, Machine

REPLY = {"ce-specversion": "1.0", "ce-source": "/sim", "ce-type": "reply"}
LARGEST = 1 << 20


@dataclass
class Subscriber:
    """One address."""

    name: str
    latency: float = 0.005
    failing: float = 0.0
    """Part of the attempts that are answered with 503."""
    hanging: float = 0.0
    """Part of the attempts that are never answered."""
    refusing: float = 0.0
    """Part of the events that are answered with 400, each time."""
    replies: bool = False
    """Whether it answers with an event."""
    away: bool = False
    """Whether nothing takes connections."""


@dataclass(frozen=True)
class Attempt:
    """A request as the network saw it."""

    subscriber: str
    event: str
    began: float
    ended: float
    answered: int
    """The status that came back; 0: none did."""
    reply: str
    """Id of the event in the answer; empty where there is none."""
    noticed: bool
    """Whether the dispatcher was there to notice that it failed."""
    task_began: float
    """When the task of the dispatcher did that made it."""


@dataclass
class Network:
    """All subscribers, and everything that was sent to them."""

    machine: Machine
    subscribers: dict[str, Subscriber] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    sent: dict[str, float] = field(default_factory=dict)
    """When each event was handed over by its sender: a client of the ingress, or a subscriber that replies."""
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def client(self, *_: Any) -> Client:
        """What a task of the dispatcher has in place of its HTTP client."""
        return Client(self)

    async def ask(self, url: str, lines: bytes, seconds: float) -> SubscriberResponse:
        """One request, and what came of it. Raises NoResponse."""
        subscriber = self.subscribers[urlsplit(url).hostname or ""]
        event, replay = _attribute(lines, b"ce-id"), _attribute(lines, b"ce-penstockreplay")
        name = f"{subscriber.name}#{replay}" if replay else subscriber.name
        number = self._counts[name, event] = self._counts[name, event] + 1
        reply = f"reply-{name}-{event}-{number}" if subscriber.replies else ""
        process, began, answered = PROCESS.get(), self.machine.now, 0
        try:
            answered = await self._answer(subscriber, event, f"{name}/{event}/{number}", seconds)
            if answered == 200 and reply:
                self.sent[reply] = self.machine.now
                return SubscriberResponse(200, {**REPLY, "ce-id": reply}, b"", LARGEST)
            return SubscriberResponse(answered, {}, b"", LARGEST)
        finally:
            gone, task_began = (False, 0.0) if process is None else (process.ended, process.began)
            status = 0 if gone else answered
            reply = reply if status == 200 else ""
            self.attempts.append(
                Attempt(name, event, began, self.machine.now, status, reply, noticed=not gone, task_began=task_began)
            )

    async def _answer(self, subscriber: Subscriber, event: str, attempt: str, seconds: float) -> int:
        """The status that it answers with. Raises NoResponse."""
        if subscriber.away:
            await asyncio.sleep(0.001)
            raise NoConnection("simulated: connection refused")
        chance = random.Random(f"{self.machine.seed}/{attempt}")
        if chance.random() < subscriber.hanging:
            await asyncio.sleep(seconds)
            raise NoResponse("simulated: no answer in time")
        await asyncio.sleep(subscriber.latency * chance.uniform(0.5, 2.0))
        if random.Random(f"{self.machine.seed}/{subscriber.name}/{event}").random() < subscriber.refusing:
            return 400
        return 503 if chance.random() < subscriber.failing else 200


class Client:
    """As `penstock.dispatcher.http.client.SubscriberClient`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def trust(self, certificates: str) -> None:
        pass

    async def post(self, endpoint: Any, names: Any, lines: bytes, body: bytes, **options: Any) -> SubscriberResponse:
        return await self._network.ask(endpoint.url, lines, options["seconds"])

    async def close(self) -> None:
        pass


def _attribute(lines: bytes, name: bytes) -> str:
    for line in lines.split(b"\r\n"):
        key, _, value = line.partition(b": ")
        if key == name:
            return value.decode()
    return ""
