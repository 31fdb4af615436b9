"""SIGKILL of each part of the stack, and of the whole, under load: no event that was answered with 202 is lost."""

from __future__ import annotations

import psutil
import pytest
from ground import RECOVERY_SECONDS, Ground, process
from producer import Producer

from chaos.plan import DISPATCHER_WORKER, SPARK_JVM
from running import eventually, start_stack

UNDER_LOAD_EVENTS = 200

KILLS = ("ingress", DISPATCHER_WORKER, SPARK_JVM, "kafka")


@pytest.mark.parametrize("victim", KILLS)
def test_nothing_accepted_is_lost_when_a_part_is_killed(ground: Ground, victim: str) -> None:
    producer = Producer(ground.url)
    try:
        producer.wait_for(UNDER_LOAD_EVENTS)
        before = len(producer.accepted)
        process(ground.stack, victim).kill()
        eventually(lambda: len(producer.accepted) > before + 100, RECOVERY_SECONDS)
    finally:
        producer.stop()
    print(f"{victim}: {ground.settle(producer)}")


def test_nothing_accepted_is_lost_when_the_whole_stack_is_killed(ground: Ground) -> None:
    """Kills the supervisor, and with it everything; a new stack on the same data delivers the rest."""
    producer = Producer(ground.url)
    try:
        producer.wait_for(UNDER_LOAD_EVENTS)
        psutil.Process(ground.stack.record["pid"]).kill()
        ground.stack.process.wait(60)
    finally:
        producer.stop()
    ground.stack = start_stack(ground.stack.settings.data_dir, *ground.flags)
    print(f"the whole stack: {ground.settle(producer)}")
