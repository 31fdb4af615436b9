"""Where the events are another log, the pipeline ends with a sentence for people, and without a traceback."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.contract.event_log import ADVICE, AnotherLog
from penstock.engine import pipeline
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSAL = AnotherLog("partition 0 ends at 4, and routing goes on from 9")


class Service:
    """A router that refuses the log: at its start, or when its query has ended later."""

    def __init__(self, *, at_start: bool) -> None:
        self._at_start = at_start

    def start(self) -> None:
        """It begins."""

    def wait_ready(self, timeout: float) -> None:
        if self._at_start:
            raise REFUSAL

    def status(self) -> dict[str, Any]:
        return {}

    def failure(self) -> BaseException | None:
        return REFUSAL

    def stop(self) -> None:
        """It has ended."""


@pytest.mark.parametrize("at_start", [True, False])
async def test_the_sentence_says_what_was_found_what_is_safe_and_which_command_does_it(at_start: bool) -> None:
    session = cast("SparkSession", SimpleNamespace(version="4.2.0"))
    services: dict[str, pipeline.Service] = {"router": Service(at_start=at_start)}
    with pytest.raises(UserError) as raised:
        async with asyncio.timeout(10):
            await pipeline._run_services(session, services, Settings(), Lifecycle(None))
    assert str(raised.value) == (
        "penstock.events is not the log that routes and cursors refer to: partition 0 ends at 4, and routing goes on "
        "from 9. Nothing is delivered until you decide: bring that log back, or, where it is gone for good, stop every "
        "control and pipeline and run penstock topics --adopt-events to continue with this one"
    )
    assert raised.value.remedy == ADVICE
