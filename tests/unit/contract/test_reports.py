"""What Ready may be built on: the newest version that all of the data plane has."""

from __future__ import annotations

from penstock.contract.reports import (
    SILENT_SECONDS,
    Ack,
    Heard,
    Loss,
    alive,
    decode,
    encode,
    heard,
    key_of,
    version_in_force,
)

NOW = 1000.0


def acks(ingress: int, router: int, dispatcher: int) -> list[Ack]:
    return [
        Ack("ingress", "ingress-0", ingress, NOW),
        Ack("router", "router", router, NOW),
        Ack("dispatcher", "dispatcher-0", dispatcher, NOW),
    ]


def test_the_slowest_component_decides() -> None:
    assert version_in_force(acks(7, 5, 6)) == 5


def test_the_slowest_instance_of_a_component_decides() -> None:
    assert version_in_force([*acks(7, 7, 7), Ack("ingress", "ingress-1", 3, NOW)]) == 3


def test_a_missing_component_leaves_nothing_in_force() -> None:
    assert version_in_force(acks(7, 7, 7)[:2]) == 0


def test_a_silent_instance_no_longer_counts() -> None:
    silent = Ack("ingress", "ingress-1", 3, NOW)
    every = [Heard(silent, NOW - SILENT_SECONDS - 1), *(Heard(ack, NOW - SILENT_SECONDS) for ack in acks(7, 7, 7))]
    assert version_in_force(alive(every, NOW)) == 7


def test_a_fresh_report_counts_from_its_arrival_whatever_the_clock_of_its_writer_says() -> None:
    for clock in (NOW - 3600, NOW + 3600):
        assert heard(Ack("router", "r", 4, clock), monotonic=50.0, unix=NOW, fresh=True).at == 50.0


def test_a_report_that_lay_in_the_topic_is_as_old_as_it_says() -> None:
    assert heard(Ack("router", "r", 4, NOW - 30), monotonic=50.0, unix=NOW, fresh=False).at == 20.0
    assert heard(Ack("router", "r", 4, NOW + 30), monotonic=50.0, unix=NOW, fresh=False).at == 50.0


def test_reports_survive_the_topic() -> None:
    for report in (Ack("router", "r", 4, NOW, {"t": "no"}), Loss("t1", 2, 10, 20, NOW)):
        assert decode(key_of(report), encode(report)) == report


def test_an_acknowledgement_without_refusals_can_be_read() -> None:
    old = b'{"component": "router", "instance": "r", "version": 4, "at": 1.0}'
    assert decode("ack/router/r", old) == Ack("router", "r", 4, 1.0)
