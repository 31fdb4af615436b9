"""The table of routes: what is wrong comes first, and names are text whatever they hold."""

from __future__ import annotations

from console_client import MakeClient
from known_api import KnownApi, trigger

from penstock.console.routes_page import line_of


def test_the_worst_comes_first(client_of: MakeClient) -> None:
    api = KnownApi(trigger("fine"), trigger("broken", failing="connection refused"), trigger("late", ready=False))
    page = client_of(api).get("/routes").text
    assert page.index(">broken<") < page.index(">late<") < page.index(">fine<")
    assert 'title="connection refused"' in page


def test_what_objects_hold_is_shown_as_text(client_of: MakeClient) -> None:
    hostile = trigger("a", spec={"subscriber": {"uri": "x"}}, subscriberUri='"><script>alert(1)</script>')
    page = client_of(KnownApi(hostile)).get("/routes").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_stack_without_routes_says_what_to_do(client_of: MakeClient) -> None:
    assert "penstock create broker" in client_of().get("/routes").text


def test_states_are_told_in_a_word() -> None:
    paused = trigger("p", metadata={"annotations": {"penstock.dev/paused": "true"}})
    assert line_of(paused, None).state == "paused"
    assert line_of(trigger("f", failing="refused"), None).why == "refused"
    assert line_of(trigger("n", ready=False), None).state == "not ready"
