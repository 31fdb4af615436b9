"""RequestReplies: a request gets the reply that is its own, in time, and nobody can make one up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import httpx2
import pytest
import structlog
from starlette.requests import Request

from penstock.contract.names import Location
from penstock.controllers.sinks.request_reply import RequestReplies
from penstock.controllers.sinks.requests import RequestRejected, read_event
from penstock.destinations import Destinations
from penstock.events.event import CloudEvent
from penstock.kube.kinds import BROKER, REQUEST_REPLY, SECRET, TRIGGER, Key, Obj
from penstock.resources.destinations import ResolvedAddress
from penstock.settings import Settings
from penstock.sources.deliveries import NotAccepted, Sinks
from tests.unit.controllers.memory_plane import ControlPlane

REFERENCE = {"apiVersion": BROKER.api_version, "kind": BROKER.kind, "name": "b"}
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "question"}


def named(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


class Asking:
    """The application, with a Broker that only remembers."""

    def __init__(self, plane: ControlPlane, sinks: Sinks | None = None) -> None:
        self.plane = plane
        self.accepted: list[Mapping[str, str]] = []
        self.broker_answers = 202
        self._app = RequestReplies(plane.context.tracker, plane.context.reply_keys, sinks or cast(Sinks, self), 1000)
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=self._app), base_url="http://rr")

    async def send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        """Takes an event for the Broker, as `Sinks` do."""
        self.accepted.append(event.attributes)
        if self.broker_answers >= 300:
            raise NotAccepted("it does not want it", self.broker_answers)

    async def ask(self, path: str = "/ns/r", **headers: str) -> httpx2.Response:
        named = {f"ce-{name}": value for name, value in headers.items()}
        return await self._client.post(path, headers={**EVENT, **named}, content=b"")

    async def accepted_one(self) -> str:
        """The mark of the first request that the Broker has."""
        mark = await self.plane.until(lambda: self.accepted and self.accepted[0].get("correlationid"))
        return str(mark)


@pytest.fixture
async def asking(plane: ControlPlane) -> Asking:
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(REQUEST_REPLY, named("r", brokerRef=REFERENCE, timeout="PT5S"))
    await plane.until(lambda: plane.ready(REQUEST_REPLY, "r"))
    return Asking(plane)


async def test_a_request_is_answered_with_its_reply(asking: Asking) -> None:
    request = asyncio.create_task(asking.ask())
    mark = await asking.accepted_one()
    answer = await asking.ask("/ns/r/reply", id="2", type="answer", replyid=mark)
    assert answer.status_code == 202
    got = await request
    assert (got.status_code, got.headers["ce-type"], got.headers["ce-id"]) == (200, "answer", "2")
    late = await asking.ask("/ns/r/reply", replyid=mark)
    assert late.status_code == 202, "nobody waits any more, and nobody should try again"


async def test_a_reply_that_somebody_made_up_is_refused(asking: Asking) -> None:
    request = asyncio.create_task(asking.ask())
    mark = await asking.accepted_one()
    for forged in ("1:AAAA:0", mark.replace("1:", "2:", 1), "x"):
        assert (await asking.ask("/ns/r/reply", replyid=forged)).status_code == 400
    assert (await asking.ask("/ns/r/reply")).status_code == 400
    assert not request.done()
    await asking.ask("/ns/r/reply", replyid=mark)
    assert (await request).status_code == 200


async def test_a_request_without_a_reply_ends_when_its_time_is_over(asking: Asking) -> None:
    asking.plane.api.apply(REQUEST_REPLY, named("r", brokerRef=REFERENCE, timeout="PT0.05S"))
    await asking.plane.settled()
    answer = await asking.ask()
    assert (answer.status_code, answer.text) == (504, "there was no reply within 0.05 s\n")


async def test_what_cannot_be_asked_is_refused(asking: Asking) -> None:
    request = asyncio.create_task(asking.ask())
    mark = await asking.accepted_one()
    assert (await asking.ask()).status_code == 409, "the same id waits already"
    await asking.ask("/ns/r/reply", replyid=mark)
    await request
    assert (await asking.ask("/ns/other")).status_code == 404
    assert (await asking.ask("/ns/r/else")).status_code == 404
    assert (await asking.ask(specversion="9")).status_code == 400
    asking.broker_answers = 503
    refused = await asking.ask()
    assert (refused.status_code, refused.text) == (502, "the Broker returned 503\n")


async def test_the_address_of_a_broker_is_judged_like_other_destinations(asking: Asking) -> None:
    denied = Destinations(Settings.model_validate({"deliver_namespaces": {"ns": {"deny": ["127.0.0.9/32"]}}}))
    async with Sinks(lambda url: Location("http://127.0.0.9:1/", "b"), destinations=denied) as sinks:
        with structlog.testing.capture_logs() as logged:
            answer = await Asking(asking.plane, sinks).ask()
    assert (answer.status_code, answer.text) == (502, "the Broker cannot be reached\n")
    assert logged[0]["error"] == "127.0.0.9 is refused as a destination: 127.0.0.9/32 is in deliver_namespaces.ns.deny"


async def test_a_compressed_event_is_refused(asking: Asking) -> None:
    answer = await asking._client.post("/ns/r", headers={**EVENT, "content-encoding": "gzip"}, content=b"x")
    assert (answer.status_code, answer.headers["accept-encoding"], asking.accepted) == (415, "identity", [])


def test_an_event_with_too_many_attributes_is_refused() -> None:
    members = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "long": "x" * 65536}
    request = Request({"type": "http", "headers": [(b"content-type", b"application/cloudevents+json")]})
    with pytest.raises(RequestRejected, match="65536 are allowed") as refused:
        read_event(request, json.dumps(members).encode())
    assert refused.value.response.status_code == 413


async def test_its_trigger_and_its_keys_come_and_go_with_it(plane: ControlPlane, asking: Asking) -> None:
    trigger = plane.api.get(TRIGGER, "ns", "r0-1") or {}
    assert trigger["spec"]["filters"] == [{"cesql": "EXISTS replyid"}]
    url = "http://request-reply.knative-eventing.svc.cluster.local/ns/r"
    assert trigger["spec"]["subscriber"] == {"uri": f"{url}/reply"}
    secret = plane.api.get(SECRET, "knative-eventing", "request-reply-keys") or {}
    assert list(secret["data"]) == ["ns.r.key-0"]
    await plane.settled()
    version = plane.api.version
    plane.context.tracker.resync()
    await plane.settled()
    assert plane.api.version == version, plane.api.journal[-4:]
    plane.api.remove(REQUEST_REPLY, Key("ns", "r"))
    await plane.until(lambda: not (plane.api.get(SECRET, "knative-eventing", "request-reply-keys") or {})["data"])
    await plane.until(lambda: not plane.api.all(TRIGGER))
    assert plane.context.reply_keys == {}


async def test_without_its_broker_it_is_not_ready(plane: ControlPlane) -> None:
    plane.api.apply(REQUEST_REPLY, named("r", brokerRef=REFERENCE))
    found = await plane.until(lambda: plane.condition(REQUEST_REPLY, "r", "BrokerReady"))
    assert (found["status"], found["reason"]) == ("Unknown", "NotFound")
    assert (await Asking(plane).ask()).status_code == 503
