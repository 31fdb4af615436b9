"""Finding the routes that a query has to do without, by as few trials as possible."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Route
from penstock.router.plan.unplannable import AGAIN_SECONDS, Unfit, Unplannable, split_off_unplannable


def route(uid: str, sql: str = "LENGTH(type) > 3") -> Route:
    return Route(uid=uid, kind="Trigger", namespace="d", name=uid, target="t", filters=[{"cesql": sql}])


class Spark:
    """Cannot plan what holds a bad route, or more routes than fit."""

    def __init__(self, *bad: str, room: int = 10_000) -> None:
        self.bad, self.room, self.trials = set(bad), room, 0

    def __call__(self, routes: Sequence[Route]) -> Unfit | None:
        self.trials += 1
        if self.bad & {found.uid for found in routes}:
            return Unfit("it is bad")
        return None if len(routes) <= self.room else Unfit("it is too much")


def known(*routes: Route) -> dict[str, Route]:
    return {found.uid: found for found in routes}


@given(st.sets(st.integers(0, 40)), st.integers(1, 40))
def test_exactly_the_bad_ones_are_found(bad: set[int], count: int) -> None:
    routes = [route(str(number)) for number in range(count)]
    assert set(split_off_unplannable(routes, Spark(*map(str, bad)))) == {str(n) for n in bad if n < count}


def test_one_among_a_thousand_is_found_in_a_few_trials() -> None:
    spark = Spark("700")
    assert split_off_unplannable([route(str(number)) for number in range(1000)], spark) == {"700": Unfit("it is bad")}
    assert spark.trials <= 25


def test_what_works_already_is_not_given_up_for_what_is_new() -> None:
    unplannable = Unplannable(Spark(room=2))
    routes = known(route("new"), route("old-1"), route("old-2"))
    assert unplannable.examine(routes, known(route("old-1"), route("old-2")))
    assert unplannable.known(routes) == {"new": "it is too much"}


def test_a_route_stays_out_until_its_filter_changes_or_it_is_gone() -> None:
    unplannable = Unplannable(Spark("bad"))
    routes = known(route("good"), route("bad"))
    assert unplannable.examine(routes, {})
    assert unplannable.known(routes) == {"bad": "it is bad"}
    assert not unplannable.examine(routes, {}), "there is nothing new to be found"
    assert unplannable.known(known(route("good"), route("bad", "LENGTH(type) > 4"))) == {}
    assert unplannable.known(routes) == {}, "what was mended has its chance again"


def test_routes_are_not_blamed_where_spark_can_do_nothing_at_all() -> None:
    unplannable = Unplannable(lambda _: Unfit("Spark is out of order"))
    assert not unplannable.examine(known(route("good")), {})
    assert unplannable.known(known(route("good"))) == {}


def test_a_failure_that_may_be_sparks_own_leaves_a_route_out_for_minutes_only() -> None:
    now, failing = 100.0, True

    def probe(routes: Sequence[Route]) -> Unfit | None:
        return Unfit("an executor was lost", final=False) if routes and failing else None

    unplannable = Unplannable(probe, lambda: now)
    assert unplannable.examine(known(route("good")), {})
    assert unplannable.known(known(route("good"))) == {"good": "an executor was lost; it is tried again in 5 minutes"}
    assert not unplannable.due()
    now, failing = now + AGAIN_SECONDS, False
    assert unplannable.due()
    assert unplannable.known(known(route("good"))) == {}
    assert not unplannable.due()


def test_routes_are_not_blamed_where_spark_fails_while_they_are_tried() -> None:
    answers = [None, *[Unfit("out of memory", final=False)] * 20]
    unplannable = Unplannable(lambda _: answers.pop(0))
    assert not unplannable.examine(known(route("good"), route("other")), {})
    assert unplannable.known(known(route("good"), route("other"))) == {}


def test_routes_that_travel_as_data_are_beyond_suspicion() -> None:
    spark = Spark("plain")
    plain = Route(uid="plain", kind="Trigger", namespace="d", name="plain", target="t", attributes={"type": "a"})
    assert not Unplannable(spark).examine(known(plain), {})
    assert spark.trials == 0
