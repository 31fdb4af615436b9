"""The subscribers of `make chaos` keep true books, and its load sends again what was not accepted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import ConnectError

from tools.chaos.books import Books
from tools.chaos.events import ASK, SENDERS, type_of
from tools.chaos.load import Load
from tools.chaos.receiver import Receiver, data_of, headers_of

NUMBER = next(number for number in range(100) if type_of(number) == ASK)


@dataclass
class Subscribers:
    books: Books = field(default_factory=Books)
    firsts: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.receiver = Receiver(
            self.books, random.Random(1), lambda name, number, _: self.firsts.append((name, number))
        )

    async def post(self, port: int, path: str, number: int = NUMBER) -> tuple[int, dict[str, str]]:
        async with ClientBuilder().no_proxy().build() as client:
            request = client.post(f"http://127.0.0.1:{port}/{path}").headers(headers_of(number))
            answer = await request.body_bytes(data_of(number)).build().send()
            return answer.status, dict(answer.headers)


@pytest.fixture
async def subscribers() -> AsyncIterator[Subscribers]:
    made = Subscribers()
    await made.receiver.start()
    yield made
    made.receiver.close()


async def test_a_delivery_is_booked_and_the_first_one_is_told(subscribers: Subscribers) -> None:
    for _ in range(3):
        assert (await subscribers.post(subscribers.receiver.port, "all"))[0] == 202
    assert subscribers.books.at("all").taken(str(NUMBER)) == 3
    assert subscribers.firsts == [("all", NUMBER)]


async def test_a_question_is_answered_with_an_event(subscribers: Subscribers) -> None:
    status, headers = await subscribers.post(subscribers.receiver.port, "asks")
    assert (status, headers["ce-id"], headers["ce-type"]) == (200, f"r{NUMBER}", "chaos.answer")


async def test_one_subscriber_comes_and_goes(subscribers: Subscribers) -> None:
    receiver = subscribers.receiver
    receiver.go()
    with pytest.raises(ConnectError):
        await subscribers.post(receiver.other_port, "comes-and-goes")
    await receiver.come()
    assert (await subscribers.post(receiver.other_port, "comes-and-goes"))[0] == 202


async def test_the_load_sends_an_event_until_it_is_accepted_and_then_the_next_of_its_key(
    subscribers: Subscribers,
) -> None:
    """The flaky subscriber is the ingress here: it accepts four of five."""
    sent, order = Books().sent, list[int]()
    load = Load(sent, 2000, lambda: f"http://127.0.0.1:{subscribers.receiver.port}/flaky", lambda n, _: order.append(n))
    async with asyncio.TaskGroup() as tasks:
        load.start(tasks)
        while sent.count < 5 * SENDERS:  # noqa: ASYNC110  # it ends with the load
            await asyncio.sleep(0.01)
        await load.stop()
    assert sorted(order) == list(sent.numbers())
    assert sent.resent == sum(1 for number in order if sent.tries[number] > 1) > 0
    assert [number for number in order if number % SENDERS == 3] == sorted(n for n in order if n % SENDERS == 3)
    assert set(sent.refused) <= {"503", "500", "429", "RequestError", "ReadError", "ConnectError"}
