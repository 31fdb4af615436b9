"""Which events that did not arrive were reported as lost, and which were reported although they arrived."""

from __future__ import annotations

from penstock.contract.reports import Loss
from tools.chaos.books import Books
from tools.chaos.checker import Lost
from tools.chaos.retention import among, by_route, older, taken_all_the_same

LOSSES = [Loss("uid-1", 0, 10, 19, 0.0), Loss("uid-1", 0, 30, 39, 0.0), Loss("another-stack's", 0, 0, 99, 0.0)]
RANGES = by_route(LOSSES, {"uid-1": "held", "uid-2": "late"})


def test_losses_are_found_by_the_name_of_the_route() -> None:
    assert {"held": LOSSES[:2]} == RANGES


def test_an_event_was_reported_where_every_copy_of_it_is_in_a_range_of_its_route() -> None:
    lost = [Lost("held", "1"), Lost("held", "2"), Lost("held", "3"), Lost("late", "1"), Lost("held", "4")]
    places = {"1": [(0, 10)], "2": [(0, 20)], "3": [(0, 19), (0, 30)], "4": [(0, 12), (0, 25)]}
    assert among(lost, RANGES, places) == {Lost("held", "1"), Lost("held", "3")}
    assert among([Lost("held", "5")], RANGES, places) == set(), "it was never seen in the log"
    assert among([Lost("held", "1")], RANGES, {"1": [(1, 10)]}) == set(), "another partition"


def test_what_was_reported_and_arrived_is_a_false_report() -> None:
    books = Books()
    ids = {(0, 10): "1", (0, 25): "2", (0, 30): "3"}
    assert list(taken_all_the_same(books, RANGES, ids)) == []
    for ident in ("2", "3"):
        books.at("held").attempt(ident, 1)
        books.at("held").succeed(ident, 2)
    assert list(taken_all_the_same(books, RANGES, ids)) == [
        "1 events were reported as lost to held and reached it, such as 3"
    ]


def test_a_new_route_is_owed_nothing_from_before_the_oldest_event_that_it_got() -> None:
    assert older([(0, 5), (0, 9)], (0, 10))
    assert not older([(0, 5), (0, 11)], (0, 10))
    assert not older([], (0, 10))
    assert not older([(0, 5)], None), "it got nothing at all"
