"""API keys: who is let in, for how long, and how much they may send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.contract.routes import Target
from penstock.ingress.authorization import KeyAuthenticator, SenderAuthorizer, digest_of
from penstock.ingress.targets import TargetTable
from penstock.resources.api_keys import ANNOTATION, StoredKey, annotation_of, stored_keys, with_keys
from tests.unit.ingress.ingress_requests import EVENT, TARGETS, Client, head, responses

NOW = 1_800_000_000.0
BROKER = TARGETS[0]
SECRET = "pk_swordfish"


def annotated(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {ANNOTATION: text}}}


def broker(*keys: StoredKey) -> Target:
    return with_keys(BROKER, annotated(annotation_of(list(keys))))


class Ingress(Client):
    """With one Broker, and time as a number."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.time = NOW
        self.app._authorizer = SenderAuthorizer([KeyAuthenticator(lambda: self.time)])
        self.app.targets = TargetTable([target])

    def ask(self, *, body: bytes = b"", **headers: str) -> tuple[int, str]:
        answer = self.send(
            headers={**EVENT, **{name.replace("_", "-"): value for name, value in headers.items()}}, body=body
        )
        return answer.status, answer.body.decode()

    def batch(self, count: int) -> int:
        event = {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}
        headers = {"Content-Type": "application/cloudevents-batch+json", "x-api-key": SECRET}
        return self.send(headers=headers, body=json.dumps([event] * count).encode()).status


def test_only_who_has_the_key_may_send() -> None:
    ingress = Ingress(broker(StoredKey("till", digest_of(SECRET))))
    assert ingress.ask(authorization=f"Bearer {SECRET}")[0] == 202
    assert ingress.ask(x_api_key=SECRET)[0] == 202
    status, told = ingress.ask(x_api_key="pk_guess")
    assert (status, "unknown API key" in told) == (401, True)
    assert ingress.ask()[0] == 401
    assert ingress.ask(authorization="Bearer something")[0] == 401
    assert len(ingress.log.records) == 2


def test_a_broker_without_the_annotation_is_open() -> None:
    assert Ingress(with_keys(BROKER, {"metadata": {}})).ask()[0] == 202


@pytest.mark.parametrize("text", ["[]", "", "{", '[{"name": 1}]', "null"])
def test_what_cannot_be_read_lets_nobody_in(text: str) -> None:
    ingress = Ingress(with_keys(BROKER, annotated(text)))
    assert ingress.ask()[0] == 401
    assert ingress.ask(x_api_key=SECRET)[0] == 401


def test_a_key_ends() -> None:
    ingress = Ingress(broker(StoredKey("till", digest_of(SECRET), expires=NOW + 60)))
    assert ingress.ask(x_api_key=SECRET)[0] == 202
    ingress.time = NOW + 60
    status, told = ingress.ask(x_api_key=SECRET)
    assert (status, told) == (401, "the API key till expired at 2027-01-15T08:01:00Z\n")


def test_a_key_may_send_so_many_events_in_a_second() -> None:
    ingress = Ingress(broker(StoredKey("till", digest_of(SECRET), events_per_second=2)))
    assert [ingress.ask(x_api_key=SECRET)[0] for _ in range(3)] == [202, 202, 429]
    ingress.time += 1
    assert ingress.batch(5) == 202
    ingress.time += 1
    status, told = ingress.ask(x_api_key=SECRET)
    assert (status, "its limit of events per second" in told) == (429, True)
    ingress.time += 2
    assert ingress.ask(x_api_key=SECRET)[0] == 202


def test_requests_whose_bodies_come_late_are_counted_before_that() -> None:
    ingress = Ingress(broker(StoredKey("till", digest_of(SECRET), events_per_second=2)))
    opened = [ingress.connect() for _ in range(4)]
    for connection, _ in opened:
        connection.data_received(head({**EVENT, "x-api-key": SECRET, "content-length": "1"}))
    for connection, wire in opened:
        if not wire.is_closed:
            connection.data_received(b"x")
    assert [responses(wire.written)[0].status for _, wire in opened] == [202, 202, 429, 429]


def test_a_key_may_send_so_many_bytes_in_a_second() -> None:
    ingress = Ingress(broker(StoredKey("till", digest_of(SECRET), bytes_per_second=100)))
    assert ingress.ask(x_api_key=SECRET, body=b"x" * 300)[0] == 202
    assert ingress.ask(x_api_key=SECRET)[0] == 429
    ingress.time += 3
    assert ingress.ask(x_api_key=SECRET)[0] == 202


def test_the_annotation_holds_no_key() -> None:
    kept = [StoredKey("till", digest_of(SECRET), "2026-01-01T00:00:00Z", NOW, 5, 6)]
    assert SECRET not in annotation_of(kept)
    assert stored_keys(annotated(annotation_of(kept))) == kept
