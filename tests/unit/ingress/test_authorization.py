"""Who may send to a target that does not take events from everybody, and what the others are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.contract.routes import Access, Policy, Target
from penstock.ingress import responses
from penstock.ingress.authorization import SenderAuthorizer
from penstock.ingress.request import Request, Sender
from penstock.ingress.responses import Response
from penstock.ingress.targets import ResolvedTarget, TargetTable
from penstock.resources.eventpolicy import names
from tests.unit.ingress.ingress_requests import EVENT, Client

TILL = "system:serviceaccount:shop:till"
STRANGER = "system:serviceaccount:elsewhere:till"
ORDERS = [{"exact": {"type": "order"}}]


class ByName:
    """Believes whatever name comes in the header: what a authenticator finds out is not the matter here."""

    def authenticate(self, request: Request, resolved: ResolvedTarget) -> Sender | Response | None:
        scheme, _, name = request.headers.get("authorization", "").partition(" ")
        if scheme == "Invited":
            return Sender(name, is_invited=True)
        if scheme != "Named":
            return None
        return Sender(name) if name else responses.unauthorized("nobody has no name")


def guarded(**access: Any) -> Client:
    client = Client(authorizer=SenderAuthorizer([ByName()]))
    target = Target("b-uid", "Broker", "shop", "orders", ("/shop/orders",), access=Access("aud", **access))
    client.app.targets = TargetTable([target])
    return client


def status(client: Client, authorization: str | None, kind: str = "order") -> int:
    headers = {**EVENT, "ce-type": kind}
    if authorization is not None:
        headers["authorization"] = authorization
    return client.send(headers=headers).status


def test_a_target_without_access_asks_nobody() -> None:
    client = Client(authorizer=SenderAuthorizer([ByName()]))
    assert status(client, None) == 202
    assert status(client, "Named ") == 202


def test_without_credentials_the_answer_says_what_to_send() -> None:
    client = guarded()
    answer = client.send()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="penstock"')
    assert b"Authorization: Bearer" in answer.body
    assert client.log.records == []


def test_credentials_that_do_not_hold_are_told_before_the_body_comes() -> None:
    client = guarded()
    answer = client.send(headers={**EVENT, "authorization": "Named "}, body=[b"a", b"b"])
    assert (answer.status, answer.body, answer.received) == (401, b"nobody has no name\n", 0)
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("mode", "own", "foreign"),
    [("allow-all", 202, 202), ("deny-all", 403, 403), ("allow-same-namespace", 202, 403)],
)
def test_the_default_mode_decides_where_no_policy_applies(mode: str, own: int, foreign: int) -> None:
    client = guarded(default_mode=mode)
    assert (status(client, f"Named {TILL}"), status(client, f"Named {STRANGER}")) == (own, foreign)


def test_a_namespace_that_begins_alike_is_another_one() -> None:
    assert status(guarded(), "Named system:serviceaccount:shopping:till") == 403


def test_where_a_policy_applies_it_alone_decides() -> None:
    client = guarded(policies=(Policy("p", (STRANGER,)),), default_mode="allow-all")
    assert (status(client, f"Named {TILL}"), status(client, f"Named {STRANGER}")) == (403, 202)
    answer = client.send(headers={**EVENT, "authorization": f"Named {TILL}"})
    assert b"(p)" in answer.body
    assert TILL.encode() in answer.body


def test_a_policy_for_nobody_lets_nobody_in() -> None:
    assert status(guarded(policies=(Policy("p"),), default_mode="allow-all"), f"Named {TILL}") == 403


def test_filters_of_a_policy_decide_about_each_event() -> None:
    client = guarded(policies=(Policy("p", (TILL,), ORDERS),))
    assert (status(client, f"Named {TILL}"), status(client, f"Named {TILL}", "refund")) == (202, 403)
    batch = [{"specversion": "1.0", "id": str(n), "source": "/s", "type": t} for n, t in enumerate(("order", "refund"))]
    headers = {"content-type": "application/cloudevents-batch+json", "authorization": f"Named {TILL}"}
    client.log.records.clear()
    assert client.send(headers=headers, body=json.dumps(batch).encode()).status == 403
    assert client.log.records == []


def test_one_of_several_policies_is_enough() -> None:
    client = guarded(policies=(Policy("a", (TILL,), ORDERS), Policy("b", ("system:serviceaccount:shop:*",))))
    assert status(client, f"Named {TILL}", "refund") == 202


def test_filters_that_cannot_be_read_let_nothing_pass() -> None:
    client = guarded(policies=(Policy("p", (TILL,), [{"exact": {"": ""}}]),))
    assert status(client, f"Named {TILL}") == 403


def test_who_was_invited_to_this_target_needs_no_policy() -> None:
    client = guarded(policies=(Policy("p", (STRANGER,), ORDERS),), default_mode="deny-all")
    assert status(client, "Invited key:till", "refund") == 202


@pytest.mark.parametrize(
    ("pattern", "subject", "is_named"),
    [
        ("*", "anybody", True),
        ("system:serviceaccount:shop:*", TILL, True),
        ("system:serviceaccount:shop:*", STRANGER, False),
        (TILL, TILL, True),
        (TILL, f"{TILL}2", False),
        ("Jane", "jane", False),
    ],
)
def test_names_of_subjects(pattern: str, subject: str, is_named: bool) -> None:
    assert names([pattern], subject) is is_named
