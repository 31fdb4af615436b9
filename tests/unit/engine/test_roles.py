"""A role alone: what it needs before it starts, and what its health port answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine.pipeline import why_unready
from penstock.engine.roles import standalone
from penstock.engine.roles.health import STUCK_SECONDS, Health
from penstock.engine.roles.table import ROLES, role_of
from penstock.install.workloads import KINDS
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import IN_CLUSTER, Settings


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_process_of_a_stack_has_a_role_and_every_role_its_own_health_port() -> None:
    assert role_of("ingress-2") is role_of("ingress")
    assert len({role.health_port for role in ROLES}) == len(ROLES)
    with pytest.raises(ValueError, match="there is no role 'kafka'"):
        role_of("kafka")


async def test_readyz_says_what_is_waited_for_and_then_what_stands_in_the_way() -> None:
    lifecycle = Lifecycle()
    health = Health(lifecycle, None)
    assert health.answer("/readyz") == (503, "text/plain; charset=utf-8", b"it starts\n")
    lifecycle.ready()
    assert health.answer("/readyz")[::2] == (200, b"ok\n")
    doubts = ["Kafka is away"]
    lifecycle.doubts.append(lambda: doubts[0] if doubts else None)
    assert health.answer("/readyz")[::2] == (503, b"Kafka is away\n")
    doubts.clear()
    assert health.answer("/readyz")[0] == 200
    lifecycle.stopping.set()
    assert health.answer("/readyz")[::2] == (503, b"it stops\n")


async def test_one_that_stands_by_is_ready_to_take_over_and_not_ready_while_it_does() -> None:
    lifecycle = Lifecycle()
    health = Health(lifecycle, None)
    lifecycle.stand_by()
    assert health.answer("/readyz")[::2] == (200, b"standing by\n")
    lifecycle.take_over()
    assert health.answer("/readyz")[::2] == (503, b"it takes over\n")
    lifecycle.ready()
    assert health.answer("/readyz")[::2] == (200, b"ok\n")
    assert lifecycle.said == [{"event": "ready", "standing_by": True}, {"event": "ready", "standing_by": False}]


async def test_livez_fails_when_the_loop_no_longer_turns() -> None:
    clock = Clock()
    health = Health(Lifecycle(), None, clock)
    clock.now += STUCK_SECONDS
    assert health.answer("/livez")[0] == 200
    clock.now += 1
    assert health.answer("/livez")[::2] == (503, b"the event loop has been blocked for 61 s\n")
    health.heartbeat()
    assert health.answer("/livez")[0] == 200
    assert health.answer("/metrics")[0] == 404, "metrics are off"


def test_the_pipeline_is_ready_while_events_are_routed_and_delivered() -> None:
    good = {"router_stalled_seconds": 0.0, "dispatcher_ready": 2, "dispatcher_tasks": 2}
    assert why_unready(good) is None
    assert why_unready({**good, "router_waiting_for_kafka": True}) == "the router waits for Kafka"
    assert why_unready({**good, "router_stalled_seconds": 7.5}) == "routing has made no progress for 7.5 s"
    assert why_unready({**good, "dispatcher_ready": 1}) == "1 of 2 dispatcher tasks deliver"


@pytest.mark.parametrize("name", ["ingress", "control", "pipeline"])
def test_a_role_without_a_kafka_is_told_how_to_name_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"`penstock {name}` needs an existing Kafka.*PENSTOCK_KAFKA"):
        standalone.prepare(role_of(name), Settings(data_dir=tmp_path))


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    def started(kubeconfig: Path) -> None:
        standalone.prepare(role_of("control"), Settings(data_dir=tmp_path, kafka="k:1", kubeconfig=kubeconfig))

    with pytest.raises(UserError, match=r"not a Pod with a ServiceAccount.*Name a kubeconfig file"):
        started(IN_CLUSTER)
    with pytest.raises(UserError, match=r"missing does not exist.*`kubeconfig`"):
        started(tmp_path / "missing")


def test_a_role_without_credentials_starts_with_the_settings_of_all() -> None:
    """The ingress does without the API, but for the keys of tokens where those are asked for."""
    needing = {kind.role for kind in KINDS if kind.uses_api}
    assert needing == {role.name for role in ROLES if role.uses_api}
