"""The check finds a lost event, a stranger's event and a broken order, and calls nothing else by those names."""

from __future__ import annotations

from itertools import count

import pytest

from tools.chaos.books import NEVER, Books
from tools.chaos.checker import Era, Expected, Lost, Misordered, check
from tools.chaos.events import ANSWER, ASK, COMMON, KEYED_SENDERS, LEFT, RIGHT, SENDERS, id_of, type_of

EVERYTHING = frozenset(type_of(number) for number in range(100))
CROWD = 20 * SENDERS


def accepted(*numbers: int, at: float = 1.0) -> Books:
    """Books in which these events were sent and accepted."""
    books = Books()
    for number in numbers:
        books.sent.begin(number, at)
        books.sent.accept(number, at + 0.5)
    return books


def deliver(books: Books, name: str, *idents: str) -> None:
    for ident in idents:
        books.at(name).attempt(ident, next(books.serials))
        books.at(name).succeed(ident, next(books.serials))


def of_type(kind: str, at_least: int = 0) -> int:
    """The first number of an event of this type."""
    return next(number for number in count(at_least) if type_of(number) == kind)


def test_books_in_which_everything_arrived_in_order_show_nothing() -> None:
    books = accepted(*range(CROWD))
    deliver(books, "all", *map(str, range(CROWD)))
    findings = check(books, [Expected("all", [Era(EVERYTHING)], ordered=True)])
    assert not findings.broken
    assert findings.duplicates == {"all": 0}


def test_an_accepted_event_that_never_arrived_is_lost() -> None:
    books = accepted(*range(CROWD))
    deliver(books, "all", *(str(number) for number in range(CROWD) if number != 77))
    assert check(books, [Expected("all", [Era(EVERYTHING)])]).lost == [Lost("all", "77")]


def test_an_event_that_was_offered_and_never_taken_is_lost() -> None:
    books = accepted(0)
    books.at("all").attempt("0", 1)
    assert check(books, [Expected("all", [Era(EVERYTHING)])]).lost == [Lost("all", "0")]


def test_an_event_without_a_202_may_arrive_or_not() -> None:
    books = accepted(0)
    books.sent.begin(1, 1.0)
    books.sent.begin(2, 1.0)
    deliver(books, "all", "0", "1")
    assert not check(books, [Expected("all", [Era(EVERYTHING)])]).broken


def test_a_missing_reply_is_lost() -> None:
    ask = of_type(ASK)
    books = accepted(ask)
    assert check(books, [Expected("answers", [Era(frozenset({ANSWER}))])]).lost == [Lost("answers", f"r{ask}")]
    deliver(books, "answers", f"r{ask}")
    assert not check(books, [Expected("answers", [Era(frozenset({ANSWER}))])]).broken


@pytest.mark.parametrize(
    ("ident", "why"),
    [
        (str(of_type(RIGHT)), "did not match"),
        (f"r{of_type(RIGHT)}", "never sent"),
        (str(of_type(LEFT, at_least=500)), "never sent"),
    ],
)
def test_an_event_that_the_route_does_not_match_is_a_stranger(ident: str, why: str) -> None:
    books = accepted(of_type(LEFT), of_type(RIGHT))
    deliver(books, "left", str(of_type(LEFT)), ident)
    (stranger,) = check(books, [Expected("left", [Era(frozenset({LEFT}))])]).strangers
    assert stranger.id == ident
    assert why in stranger.why


def test_a_delivery_that_was_changed_on_its_way_is_a_stranger() -> None:
    books = Books()
    books.at("left").odd["the id 'x'"] += 1
    (stranger,) = check(books, [Expected("left", [Era(frozenset({LEFT}))])]).strangers
    assert stranger.id == "the id 'x'"


def test_order_is_broken_where_an_event_is_offered_before_the_one_before_it_was_taken() -> None:
    first, second = 3, 3 + SENDERS
    books = accepted(first, second)
    arrivals = books.at("ordered")
    arrivals.attempt(str(first), 1)
    arrivals.attempt(str(second), 2)
    arrivals.succeed(str(second), 3)
    arrivals.succeed(str(first), 4)
    expected = [Expected("ordered", [Era(EVERYTHING)], ordered=True)]
    assert check(books, expected).misordered == [Misordered("ordered", "key-3", str(first), str(second))]
    assert not check(books, [Expected("ordered", [Era(EVERYTHING)])]).broken, "nothing was promised"


def test_order_counts_first_deliveries_only() -> None:
    first, second = 3, 3 + SENDERS
    books = accepted(first, second)
    deliver(books, "ordered", str(first), str(second), str(first), str(second))
    findings = check(books, [Expected("ordered", [Era(EVERYTHING)], ordered=True)])
    assert not findings.broken
    assert findings.duplicates["ordered"] == 2


def test_order_is_promised_within_a_key_only() -> None:
    books = accepted(3, 4, KEYED_SENDERS, KEYED_SENDERS + SENDERS)
    deliver(books, "ordered", "4", "3", str(KEYED_SENDERS + SENDERS), str(KEYED_SENDERS))
    assert not check(books, [Expected("ordered", [Era(EVERYTHING)], ordered=True)]).broken


def test_replies_have_an_order_too() -> None:
    asks = [number for number in range(3, 50 * SENDERS, SENDERS) if type_of(number) == ASK][:2]
    books = accepted(*asks)
    deliver(books, "answers", *(id_of(number, reply=True) for number in reversed(asks)))
    findings = check(books, [Expected("answers", [Era(frozenset({ANSWER}))], ordered=True)])
    assert [(one.before, one.after) for one in findings.misordered] == [(f"r{asks[0]}", f"r{asks[1]}")]


def test_events_sent_again_by_their_producer_do_not_count_as_delivered_again() -> None:
    books = Books()
    books.sent.begin(0, 1.0)
    books.sent.begin(0, 2.0)
    books.sent.accept(0, 3.0)
    deliver(books, "all", "0", "0")
    assert check(books, [Expected("all", [Era(EVERYTHING)])]).duplicates["all"] == 0


def changed_at_ten() -> Expected:
    """A route that changed from LEFT to RIGHT: settled at 9, asked for at 10, in force at 11."""
    before = Era(frozenset({COMMON, LEFT}), settled=9.0, replaced=11.0)
    return Expected("changing", [before, Era(frozenset({COMMON, RIGHT}), requested=10.0, in_force=11.0)])


@pytest.mark.parametrize(
    ("kind", "sent", "must", "may"),
    [
        (LEFT, 5.0, True, True),
        (LEFT, 9.5, False, True),
        (LEFT, 11.5, False, False),
        (RIGHT, 5.0, False, True),
        (RIGHT, 10.5, False, True),
        (RIGHT, 11.5, True, True),
        (COMMON, 5.0, True, True),
        (ASK, 5.0, False, False),
    ],
)
def test_a_changed_filter_decides_by_when_the_event_was_sent(kind: str, sent: float, must: bool, may: bool) -> None:
    route = changed_at_ten()
    assert route.must_take(kind, sent, sent + 0.1) is must
    assert route.may_take(kind, sent, sent + 0.1) is may


def test_a_new_route_gets_nothing_from_before_it() -> None:
    route = Expected("extra", [Era(frozenset({LEFT}), requested=10.0, in_force=NEVER)])
    assert not route.may_take(LEFT, 5.0, 6.0)
    assert route.may_take(LEFT, 9.0, 10.5)
    assert not route.must_take(LEFT, 50.0, 51.0), "it never became Ready"


def test_arrivals_are_kept_in_whatever_order_they_come() -> None:
    books = Books()
    for number in (9_000, 3, 12_000, 2):
        deliver(books, "all", str(number))
    assert [number for number, _, _ in books.at("all").offered()] == [2, 3, 9_000, 12_000]
    assert books.at("all").first_success("9000") == 2
    assert books.at("all").taken("4") == 0
