"""A worker that looks for its partitions waits for a topic that is not there, patiently and quietly."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from structlog.testing import capture_logs

from penstock.dispatcher import worker
from penstock.kafka.admin import NotDone, TopicAdmin


class Admin:
    """Answers as told, the last answer for ever."""

    def __init__(self, *answers: dict[str, int] | NotDone) -> None:
        self._answers = list(answers)
        self.asked = 0

    def partitions(self, _: float) -> dict[str, int]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, NotDone):
            raise answer
        return answer


async def find(admin: Admin, stop: asyncio.Event) -> range:
    return await worker._partitions(cast("TopicAdmin", admin), "topic", stop)


async def test_a_topic_that_is_missing_is_waited_for_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PAUSE_SECONDS", (0.001, 0.002))
    admin = Admin({}, NotDone("away"), {"other": 1}, {"topic": 3})
    with capture_logs() as lines:
        assert await find(admin, asyncio.Event()) == range(3)
    assert admin.asked == 4
    assert [(line["event"], line["topic"]) for line in lines] == [("waiting for a topic", "topic")]


async def test_there_is_a_pause_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PAUSE_SECONDS", (60.0, 60.0))
    admin, stop = Admin({}), asyncio.Event()
    finding = asyncio.create_task(find(admin, stop))
    while not admin.asked:  # noqa: ASYNC110  # it is asked in a thread
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0)
    assert admin.asked == 1
    stop.set()
    assert await asyncio.wait_for(finding, 60) == range(0)
