"""What takes the events of JobSinks: nothing is accepted before it is stored, and nothing is stored twice."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest

from penstock.controllers.sinks.job_sink import JobSinks
from penstock.kube.errors import Unavailable
from penstock.kube.kinds import EVENT_POLICY, JOB, JOB_SINK, SECRET, Key, Kind, Obj
from penstock.oidc.verifier import TokenRefused
from penstock.resources.jobsink import location_of
from tests.unit.controllers.api_double import refuse
from tests.unit.controllers.memory_plane import ControlPlane

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "content-type": "application/json"}
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


async def subject(token: str, audience: str) -> str | TokenRefused:
    """Tokens name their owner, and are for the JobSink `ns/s`."""
    if token == "early":
        return TokenRefused("the keys of the issuer are being fetched", is_passing=True)
    return (
        token if audience == "sinks.knative.dev/jobsink/ns/s" and token.startswith("system:") else TokenRefused("wrong")
    )


class Client:
    """Sends requests without sockets."""

    def __init__(self, plane: ControlPlane, scheme: str = "http") -> None:
        app = JobSinks(plane.context.api, plane.context.tracker, 1000, plane.context.job_sink_guards, subject)
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=f"{scheme}://job-sink")

    async def send(
        self, path: str = "/ns/s", body: bytes = b'{"a":1}', headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        return await self._client.post(path, content=body, headers={**EVENT, **(headers or {})})

    async def ask(self, path: str) -> httpx2.Response:
        return await self._client.get(path)


def address(plane: ControlPlane) -> Obj:
    status = (plane.api.get(JOB_SINK, "ns", "s") or {}).get("status") or {}
    return dict(status.get("address") or {})


def bearer(owner: str) -> dict[str, str]:
    return {"authorization": f"Bearer {owner}"}


@pytest.fixture
async def client(plane: ControlPlane) -> Client:
    metadata = {"name": "s", "namespace": "ns"}
    plane.api.apply(JOB_SINK, {"metadata": metadata, "spec": {"job": {"spec": {"template": {"spec": POD}}}}})
    await plane.until(lambda: plane.ready(JOB_SINK, "s"))
    return Client(plane)


def only(plane: ControlPlane, kind: Kind) -> Obj:
    [found] = plane.api.all(kind).values()
    return found


async def test_an_event_becomes_a_job_and_a_secret(plane: ControlPlane, client: Client) -> None:
    answer = await client.send()
    assert answer.status_code == 202
    assert answer.headers["location"] == "/namespaces/ns/name/s/sources/%2Fs/ids/1"
    job, secret = only(plane, JOB), only(plane, SECRET)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    event = json.loads(base64.b64decode(secret["data"]["event"]))
    assert (event["type"], event["data"]) == ("t", {"a": 1})


async def test_an_event_that_comes_again_makes_nothing_new(plane: ControlPlane, client: Client) -> None:
    for _ in range(2):
        assert (await client.send()).status_code == 202
    assert len(plane.api.all(JOB)) == len(plane.api.all(SECRET)) == 1
    await client.send(headers={"ce-id": "2"})
    assert len(plane.api.all(JOB)) == 2


async def test_what_a_crash_left_out_is_made_good_when_the_event_comes_again(
    plane: ControlPlane, client: Client
) -> None:
    await client.send()
    plane.api.remove(SECRET, Key("ns", only(plane, SECRET)["metadata"]["name"]))
    assert (await client.send()).status_code == 202
    assert only(plane, SECRET)


async def test_nothing_is_accepted_that_could_not_be_stored(
    plane: ControlPlane, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = plane.api.create

    async def broken(kind: Kind, obj: Obj) -> Any:
        if kind == SECRET:
            raise refuse(413, "too large")
        return await create(kind, obj)

    monkeypatch.setattr(plane.api, "create", broken)
    answer = await client.send()
    assert (answer.status_code, answer.headers["reason"]) == (500, "too large")
    assert plane.api.all(JOB) == {}, "no Job waits for a Secret that cannot be"

    async def away(kind: Kind, obj: Obj) -> Any:
        raise Unavailable("the API server is away")

    monkeypatch.setattr(plane.api, "create", away)
    assert (await client.send()).status_code == 503


async def test_what_is_no_event_or_has_no_sink_is_refused(plane: ControlPlane, client: Client) -> None:
    assert (await client.send("/ns/other")).status_code == 404
    assert (await client.send("/")).status_code == 404
    assert (await client.send(headers={"ce-specversion": "9"})).status_code == 400
    assert (await client.send(body=b"x" * 1001)).status_code == 413
    assert plane.api.all(JOB) == {}


async def test_the_location_tells_how_far_the_job_is(plane: ControlPlane, client: Client) -> None:
    location = (await client.send()).headers["location"]
    assert (await client.ask(location)).status_code == 202
    assert (await client.ask("/namespaces/ns/name/s/sources/x/ids/9")).status_code == 404
    assert (await client.ask("/ns/s")).status_code == 400
    for kind, code in (("Complete", 200), ("Failed", 400)):
        job = only(plane, JOB)
        status = {"conditions": [{"type": kind, "status": "True"}]}
        plane.api._store(JOB, {**job, "status": status}, "MODIFIED")
        answer = await client.ask(location)
        assert (answer.status_code, answer.headers["reason"]) == (code, kind)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("../../../../api/v1/namespaces/bank/secrets/db?", "n"), ("ns", "../secrets/db"), ("ns", "S")],
)
async def test_a_location_tells_of_jobs_only(
    plane: ControlPlane, client: Client, monkeypatch: pytest.MonkeyPatch, namespace: str, name: str
) -> None:
    asked: list[Key] = []

    async def read(kind: Kind, key: Key) -> Obj:
        asked.append(key)
        return {"kind": "Secret"}

    monkeypatch.setattr(plane.api, "read", read)
    answer = await client.ask(location_of(namespace, name, "s", "i"))
    assert (answer.status_code, asked) == (404, [])


async def test_its_addresses_and_what_it_takes_follow_transport_encryption(plane: ControlPlane, client: Client) -> None:
    secure = Client(plane, "https")
    assert ((await client.send()).status_code, (await secure.send()).status_code) == (202, 404)
    plane.switch(transport_encryption="permissive")
    await plane.until(lambda: plane.context.job_sink_guards[Key("ns", "s")].transport == "permissive")
    assert ((await client.send()).status_code, (await secure.send()).status_code) == (202, 202)
    plane.switch(transport_encryption="strict")
    await plane.until(lambda: address(plane).get("name") == "https")
    assert ((await client.send()).status_code, (await secure.send()).status_code) == (404, 202)
    assert address(plane)["url"] == "https://job-sink.knative-eventing.svc.cluster.local/ns/s"
    assert "BEGIN CERTIFICATE" in address(plane)["CACerts"]


async def test_with_oidc_it_takes_tokens_for_its_audience_only(plane: ControlPlane, client: Client) -> None:
    plane.switch(authentication_oidc="enabled")
    await plane.until(lambda: address(plane).get("audience"))
    assert address(plane)["audience"] == "sinks.knative.dev/jobsink/ns/s"
    unknown = await client.send()
    assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, "Bearer")
    assert (await client.send(headers=bearer("forged"))).status_code == 401
    assert (await client.send(headers=bearer("early"))).status_code == 503
    other = await client.send(headers=bearer("system:serviceaccount:other:till"))
    assert (other.status_code, "allow-same-namespace" in other.text) == (403, True)
    assert plane.api.all(JOB) == {}
    assert (await client.send(headers=bearer("system:serviceaccount:ns:till"))).status_code == 202


async def test_event_policies_say_who_may_send_what(plane: ControlPlane, client: Client) -> None:
    plane.switch(authentication_oidc="enabled")
    to = [{"ref": {"apiVersion": "sinks.knative.dev/v1alpha1", "kind": "JobSink", "name": "s"}}]
    sender = "system:serviceaccount:other:till"
    spec = {"to": to, "from": [{"sub": sender}], "filters": [{"exact": {"type": "t"}}]}
    plane.api.apply(EVENT_POLICY, {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    await plane.until(lambda: ((plane.api.get(JOB_SINK, "ns", "s") or {}).get("status") or {}).get("policies"))
    assert (await client.send(headers=bearer("system:serviceaccount:ns:till"))).status_code == 403
    refused = await client.send(headers={**bearer(sender), "ce-type": "other"})
    assert (refused.status_code, "do not allow the event" in refused.text) == (403, True)
    assert (await client.send(headers=bearer(sender))).status_code == 202


async def test_a_policy_that_is_not_ready_makes_it_unready(plane: ControlPlane, client: Client) -> None:
    plane.switch(authentication_oidc="enabled")
    missing = {"apiVersion": "sources.knative.dev/v1", "kind": "PingSource", "name": "nobody", "namespace": "ns"}
    spec = {"from": [{"ref": missing}]}
    plane.api.apply(EVENT_POLICY, {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    await plane.until(lambda: plane.condition(JOB_SINK, "s", "EventPoliciesReady").get("status") == "False")
    assert not plane.ready(JOB_SINK, "s")
    assert (await client.send(headers=bearer("system:serviceaccount:ns:till"))).status_code == 403


async def test_a_sink_that_is_gone_leaves_nothing_behind(plane: ControlPlane, client: Client) -> None:
    plane.api.remove(JOB_SINK, Key("ns", "s"))
    await plane.until(lambda: not plane.context.job_sink_guards)
    assert (await client.send()).status_code == 404
