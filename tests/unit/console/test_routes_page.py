"""The table of routes: what is wrong comes first, and names are text whatever they hold."""

from __future__ import annotations

from penstock.console.routes_page import line_of
from penstock.resources.destinations import loss_finding
from tests.unit.console.console_client import MakeClient
from tests.unit.console.known_api import KnownApi, trigger


def test_the_worst_comes_first(client_of: MakeClient) -> None:
    api = KnownApi(trigger("fine"), trigger("broken", failing="connection refused"), trigger("late", ready=False))
    page = client_of(api).get("/routes").text
    assert page.index(">broken<") < page.index(">late<") < page.index(">fine<")
    assert 'title="connection refused"' in page


def loss_to_come() -> list[dict[str, str]]:
    [found] = loss_finding((), expiring=True)
    return [{"type": found.type, "status": found.status, "reason": found.reason, "message": found.message}]


def test_a_loss_to_come_comes_before_everything_else(client_of: MakeClient) -> None:
    late = trigger("late", failing="connection refused")
    late["status"]["conditions"] += loss_to_come()
    page = client_of(KnownApi(trigger("broken", failing="connection refused"), late)).get("/routes").text
    assert page.index(">late<") < page.index(">broken<")
    shown = client_of(KnownApi(late)).get("/routes/trigger/default/late").text
    assert "raise retention_mib" in shown
    assert "expiring" in client_of(KnownApi(late)).get("/").text


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
    delivering = {"type": "Delivering", "status": "False", "reason": "Paused", "message": "Events wait."}
    paused["status"]["conditions"].append(delivering)
    assert line_of(paused, None).state == "paused"
    assert line_of(trigger("f", failing="refused"), None).why == "refused"
    paused["status"]["conditions"] += loss_to_come()
    assert (line_of(paused, None).state, "Resume the route" in line_of(paused, None).why) == ("expiring", True)
    assert line_of(trigger("n", ready=False), None).state == "not ready"
