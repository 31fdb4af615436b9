"""What Ready may be built on: the newest version that all of the data plane has."""

from __future__ import annotations

from penstock.contract.reports import SILENT_SECONDS, Ack, Loss, decode, encode, key_of, version_in_force

NOW = 1000.0


def acks(ingress: int, router: int, dispatcher: int) -> list[Ack]:
    return [
        Ack("ingress", "ingress-0", ingress, NOW),
        Ack("router", "router", router, NOW),
        Ack("dispatcher", "dispatcher-0", dispatcher, NOW),
    ]


def test_the_slowest_component_decides() -> None:
    assert version_in_force(acks(7, 5, 6), NOW) == 5


def test_the_slowest_instance_of_a_component_decides() -> None:
    assert version_in_force([*acks(7, 7, 7), Ack("ingress", "ingress-1", 3, NOW)], NOW) == 3


def test_a_missing_component_leaves_nothing_in_force() -> None:
    assert version_in_force(acks(7, 7, 7)[:2], NOW) == 0


def test_a_silent_instance_no_longer_counts() -> None:
    silent = Ack("ingress", "ingress-1", 3, NOW - SILENT_SECONDS - 1)
    assert version_in_force([*acks(7, 7, 7), silent], NOW) == 7


def test_reports_survive_the_topic() -> None:
    for report in (Ack("router", "r", 4, NOW, {"t": "no"}), Loss("t1", 2, 10, 20, NOW)):
        assert decode(key_of(report), encode(report)) == report


def test_an_acknowledgement_without_refusals_can_be_read() -> None:
    old = b'{"component": "router", "instance": "r", "version": 4, "at": 1.0}'
    assert decode("ack/router/r", old) == Ack("router", "r", 4, 1.0)
