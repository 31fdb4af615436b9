"""One stack for all faults, with a Broker, a Trigger and a subscriber that counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.faults.ground import TRIGGER, WARNING_SECONDS, Ground
from tests.integration.faults.producer import Subscriber
from tests.running import start_stack, stop_process

BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: faults}
"""


STOP_SECONDS = 120
"""A busy machine's, with the time that the first stop takes to keep the JVMs' classes for the next start."""


@pytest.fixture(scope="package")
def shared_ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The stack, which ends as it should after all that."""
    subscriber = Subscriber()
    flags = ("--set", f"loss_warning_hours={WARNING_SECONDS / 3600}", "--set", "history=true")
    stack = start_stack(tmp_path_factory.mktemp("faults") / "data", *flags)
    ground = Ground(stack, subscriber, flags)
    try:
        stack.apply(f"{BROKER}---{TRIGGER.format(name='faults', url=subscriber.url)}")
        stack.kubectl("wait", "--for=condition=Ready", "trigger/faults", "--timeout=150s", timeout=170)
        yield ground
    finally:
        seconds = stop_process(ground.stack.process)
        subscriber.close()
    assert ground.stack.process.returncode == 0, ground.stack.logs()
    assert seconds < STOP_SECONDS


@pytest.fixture
def ground(shared_ground: Ground) -> Ground:
    if shared_ground.stack.process.poll() is not None:  # the test before left it dead
        shared_ground.stack = start_stack(shared_ground.stack.settings.data_dir, *shared_ground.flags)
    shared_ground.subscriber.received.clear()
    return shared_ground
