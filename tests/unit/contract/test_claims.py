"""Who has a role follows from the order of the records alone, and all who read them agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.claims import NOTHING, ClaimRecord, RoleClaims, decode, encode
from tests.examples import examples


def take(instance: str, heard: int) -> ClaimRecord:
    return ClaimRecord("take", instance, heard=heard)


def renew(instance: str, epoch: int) -> ClaimRecord:
    return ClaimRecord("renew", instance, epoch=epoch)


def read(*records: tuple[int, ClaimRecord]) -> RoleClaims:
    ledger = RoleClaims()
    for offset, record in records:
        ledger.apply(offset, record)
    return ledger


def test_of_two_that_take_a_free_role_the_first_has_it() -> None:
    ledger = read((7, take("a", NOTHING)), (8, take("b", NOTHING)))
    assert (ledger.holder, ledger.epoch) == ("a", 7)


def test_a_renewal_in_between_keeps_the_role() -> None:
    ledger = read((0, take("a", NOTHING)), (1, renew("a", 0)), (2, take("b", 0)))
    assert ledger.holder == "a"
    assert ledger.apply(3, take("b", 2))
    assert (ledger.holder, ledger.epoch) == ("b", 3)
    assert not ledger.apply(4, renew("a", 0)), "it has lost the role"
    assert ledger.holder == "b"


def test_a_role_that_was_given_back_is_free() -> None:
    ledger = read((0, take("a", NOTHING)), (1, ClaimRecord("release", "a", epoch=0)))
    assert ledger.holder is None
    assert not ledger.apply(2, renew("a", 0)), "a renewal that was under way does not bring it back"
    assert ledger.apply(3, take("b", 2))


def test_a_take_that_asks_nobody_counts_and_has_a_greater_epoch() -> None:
    ledger = read((0, take("a", NOTHING)), (5, ClaimRecord("take", "b", sole=True)))
    assert (ledger.holder, ledger.epoch) == ("b", 5)


def test_one_that_begins_in_the_middle_learns_who_has_the_role_from_a_renewal() -> None:
    ledger = read((10, take("late", 4)))
    assert (ledger.holder, ledger.epoch) == ("late", NOTHING), "it may have the role"
    assert ledger.apply(11, renew("a", 3))
    assert (ledger.holder, ledger.epoch) == ("a", 3)


def test_records_are_read_as_they_were_written() -> None:
    record = ClaimRecord("take", "a", number=4, heard=17)
    assert decode(encode(record)) == record


RECORDS = st.builds(
    ClaimRecord,
    st.sampled_from(["take", "renew", "release"]),
    st.sampled_from(["a", "b", "c"]),
    epoch=st.integers(-1, 30),
    heard=st.integers(-1, 30),
)


@examples(2)
@given(st.lists(RECORDS, max_size=30), st.integers(0, 30))
def test_epochs_only_grow_and_a_late_reader_is_not_behind_once_the_holder_has_renewed(
    records: list[ClaimRecord], begins: int
) -> None:
    early, late, epochs = RoleClaims(), RoleClaims(), [NOTHING]
    for offset, record in enumerate(records):
        # Nobody renews a claim that is not there yet.
        possible = record if record.epoch < offset else ClaimRecord("renew", record.instance, epoch=-1)
        early.apply(offset, possible)
        if offset >= begins:
            late.apply(offset, possible)
        epochs.append(early.epoch)
    assert epochs == sorted(epochs)
    if early.holder is not None and begins <= len(records):
        renewal = renew(early.holder, early.epoch)
        assert early.apply(len(records), renewal)
        late.apply(len(records), renewal)
        assert late.epoch >= early.epoch
