"""When a Lease may be taken, and what is written."""

from __future__ import annotations

from penstock.controllers.lease import LEASE_SECONDS, SeenLease, released, renewed, taken

NOW = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-01T00:00:02.000000Z"


def test_a_lease_is_taken_when_it_has_not_changed_for_its_time_on_the_clock_of_the_one_that_waits() -> None:
    seen = SeenLease(since=100.0)
    held = taken(None, "penstock-control", "system", "a", NOW)
    seen.observe(held, 100.0)
    assert not seen.may_take("b", 100.0 + LEASE_SECONDS - 1)
    seen.observe(renewed(held, LATER), 109.0)
    assert not seen.may_take("b", 100.0 + LEASE_SECONDS)
    assert seen.may_take("b", 109.0 + LEASE_SECONDS)


def test_a_lease_that_names_a_longer_time_is_waited_for() -> None:
    seen = SeenLease()
    held = taken(None, "penstock-control", "system", "a", NOW)
    held["spec"]["leaseDurationSeconds"] = 60
    seen.observe(held, 0.0)
    assert not seen.may_take("b", 59.0)
    assert seen.may_take("b", 60.0)


def test_a_lease_that_is_not_there_or_was_given_back_is_free() -> None:
    seen = SeenLease()
    seen.observe(None, 0.0)
    assert seen.may_take("b", 0.0)
    seen.observe(released(taken(None, "penstock-control", "system", "a", NOW), LATER), 1.0)
    assert seen.may_take("b", 1.0)


def test_one_of_the_same_name_takes_its_own_place_at_once() -> None:
    seen = SeenLease()
    seen.observe(taken(None, "penstock-control", "system", "host-control", NOW), 0.0)
    assert seen.may_take("host-control", 0.0)


def test_changes_of_hands_are_counted_and_the_version_that_was_read_is_named() -> None:
    first = taken(None, "penstock-control", "system", "a", NOW)
    assert first["metadata"] == {"name": "penstock-control", "namespace": "system"}
    assert first["spec"]["leaseTransitions"] == 0
    first["metadata"]["resourceVersion"] = "7"
    second = taken(first, "penstock-control", "system", "b", LATER)
    assert second["metadata"]["resourceVersion"] == "7"
    assert (second["spec"]["holderIdentity"], second["spec"]["leaseTransitions"]) == ("b", 1)
