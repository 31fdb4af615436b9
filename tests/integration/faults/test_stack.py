"""SIGKILL of each part of the stack, and of the whole, under load: no event that was answered with 202 is lost.

Each part comes back, and nothing of a killed stack is left.
"""

from __future__ import annotations

import psutil
import pytest

from tests.integration.faults.ground import RECOVERY_SECONDS, Ground, process, ready
from tests.integration.faults.producer import Producer
from tests.running import start_stack
from tests.waiting import eventually
from tools.chaos import victims
from tools.chaos.plan import COMPONENTS, DISPATCHER_WORKER, SPARK_JVM

pytestmark = pytest.mark.long

UNDER_LOAD_EVENTS = 200
GONE_SECONDS = 60


@pytest.mark.parametrize("victim", [*COMPONENTS, SPARK_JVM, DISPATCHER_WORKER])
def test_nothing_accepted_is_lost_when_a_part_is_killed(ground: Ground, victim: str) -> None:
    producer = Producer(ground.url)
    try:
        producer.wait_for(UNDER_LOAD_EVENTS)
        before, killed = len(producer.accepted), process(ground.stack, victim)
        killed.kill()
        eventually(lambda: len(producer.accepted) > before + 100, RECOVERY_SECONDS)
        process(ground.stack, victim, but=killed.pid)
        eventually(lambda: ready(ground.stack), RECOVERY_SECONDS)
    finally:
        producer.stop()
    print(f"{victim}: {ground.settle(producer)}")


def test_nothing_accepted_is_lost_when_the_whole_stack_is_killed(ground: Ground) -> None:
    """Kills the supervisor, and with it everything; a new stack on the same data delivers the rest."""
    producer = Producer(ground.url)
    try:
        producer.wait_for(UNDER_LOAD_EVENTS)
        supervisor = psutil.Process(ground.stack.record["pid"])
        family = supervisor.children(recursive=True)
        assert len([one for one in family if _name(one) == "java"]) == 2
        supervisor.kill()
        ground.stack.process.wait(60)
    finally:
        producer.stop()
    _, alive = psutil.wait_procs(family, timeout=GONE_SECONDS)
    assert not [one for one in alive if victims.alive(one)]
    ground.stack = start_stack(ground.stack.settings.data_dir, *ground.flags)
    assert "faults" in ground.stack.kubectl("get", "brokers", "-o", "name")
    print(f"the whole stack: {ground.settle(producer)}")


def _name(one: psutil.Process) -> str:
    try:
        return one.name()
    except psutil.NoSuchProcess:  # some come and go
        return ""
