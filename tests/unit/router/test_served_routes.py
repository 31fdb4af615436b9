"""What is noted of the routes that the router serves, and which of them reach back."""

from penstock.contract.reports import Served
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.router.generations.served_routes import ServedRoutes


def route(uid: str, *start: int) -> Route:
    return Route(uid=uid, kind="Trigger", namespace="default", name=uid, target="t", start=start)


def test_new_routes_and_replays_reach_back_later_starts_do_not() -> None:
    served = ServedRoutes({uid: Served(uid, (5,)) for uid in ("same", "replayed", "later")})
    routes = [route("same", 5), route("replayed", 2), route("later", 9), route("new", 7)]
    assert [(found.uid, found.start) for found in served.newcomers(routes)] == [("replayed", (2,)), ("new", (7,))]


def test_a_route_that_was_left_out_reaches_back_to_where_it_was() -> None:
    served = ServedRoutes({"torn": Served("torn", (5, 5), owed=(60, 3))})
    assert [found.start for found in served.newcomers([route("torn", 5, 5)])] == [(60, 5)]


def test_a_route_that_begins_anew_from_the_oldest_is_not_held_to_what_it_was_owed() -> None:
    served = ServedRoutes({"torn": Served("torn", (5,), owed=(60,))})
    assert [found.start for found in served.newcomers([route("torn")])] == [()]


def test_a_route_that_nothing_names_any_more_is_left_out_not_ended() -> None:
    served = ServedRoutes({"gone": Served("gone", (5,)), "here": Served("here", (5,))})
    routes = {"here": route("here", 5)}
    snapshot = Snapshot(3, routes=routes, missing=1)
    assert served.left_out(snapshot, routes, (70,)) == {"gone": Served("gone", (5,), owed=(70,))}
    assert served.live(snapshot, routes, {}, ()) == {}


def test_what_is_owed_already_reaches_further_back_where_routing_does() -> None:
    """`penstock.matched` has lost its end, with what the route got before it was left out."""
    served = ServedRoutes({"gone": Served("gone", (5,), owed=(70,)), "later": Served("later", (5,), owed=(40,))})
    snapshot = Snapshot(3, unreadable=frozenset(("gone", "later")))
    assert served.left_out(snapshot, {}, (60,)) == {"gone": Served("gone", (5,), owed=(60,))}


def test_what_was_read_again_for_a_route_is_owed_again_where_the_log_has_lost_some_of_it() -> None:
    served, routes = ServedRoutes(), {"new": route("new", 7)}
    noted = Served("new", (7,), None, since=(7,), until=(90,))
    assert served.live(Snapshot(3, routes=routes), routes, {"new": (7,)}, (90,)) == {"new": noted}
    assert served.owe_cut_off((90,)) == {}
    assert served.owe_cut_off((89,)) == {"new": Served("new", (7,), owed=(7,))}


def test_only_what_changes_is_noted() -> None:
    served = ServedRoutes({"same": Served("same", (5,)), "ended": Served("ended", (5,))})
    routes = {"same": route("same", 5), "new": route("new", 7)}
    assert served.live(Snapshot(3, routes=routes), routes, {}, ()) == {"ended": None, "new": Served("new", (7,))}
    assert served.live(Snapshot(4, routes=routes), routes, {}, ()) == {}
