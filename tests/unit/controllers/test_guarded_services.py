"""Tokens and EventPolicies in front of the Services of EventTransforms: nothing else reaches their Pods."""

from __future__ import annotations

import gzip
import ssl
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx2
import pytest

from penstock.contract.routes import ServiceName
from penstock.controllers.sinks.guarded_services import GuardedCertificates, GuardedServices, service_of
from penstock.kube.kinds import EVENT_POLICY, EVENT_TRANSFORM, POD, SERVICE, Key, Obj
from penstock.oidc.verifier import TokenRefused
from penstock.settings import Settings
from penstock.web import own_authority
from penstock.web.tls_server import FOLDER, InMemoryCertificate, ServerTls
from tests.unit.controllers.memory_plane import ControlPlane

HOST = "x-jsonata.ns.svc.cluster.local"
AUDIENCE = "eventing.knative.dev/eventtransform/ns/x"
OWN, OTHER = "system:serviceaccount:ns:till", "system:serviceaccount:other:till"
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "content-type": "application/json"}
GUARDS = {"80": "127.0.0.1:1", "443": "127.0.0.1:2"}


async def subject(token: str, audience: str) -> str | TokenRefused:
    """Tokens name their owner, and are for the EventTransform."""
    return token if audience == AUDIENCE and token.startswith("system:") else TokenRefused("wrong")


class Pods:
    """What runs in Pods: answers with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[httpx2.Request] = []
        self.body, self.headers = b"changed", {"ce-type": "changed", "connection": "close"}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return httpx2.Response(200, stream=httpx2.ByteStream(self.body), headers=self.headers)


class Client:
    """Sends requests without sockets."""

    def __init__(self, plane: ControlPlane, scheme: str = "http") -> None:
        self.pods = Pods()
        guards, pods = plane.context.service_guards, plane.context.guarded_pods
        app = GuardedServices(guards, pods, 1000, subject, httpx2.MockTransport(self.pods))
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=f"{scheme}://{HOST}")

    async def send(self, owner: str = "", path: str = "/", **headers: str) -> httpx2.Response:
        token = {"authorization": f"Bearer {owner}"} if owner else {}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._client.post(path, content=b"{}", headers={**EVENT, **token, **given})


@pytest.fixture
async def client(plane: ControlPlane) -> Client:
    plane.context.guard_ports = GUARDS
    plane.switch(authentication_oidc="enabled")
    plane.api.apply(EVENT_TRANSFORM, named("x", {"jsonata": {"expression": "$"}}))
    pod = await plane.until(lambda: next(iter(plane.api.all(POD).values()), None))
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pod["metadata"].setdefault("annotations", {})["penstock.dev/pod-ports"] = "8080=41234"
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
    plane.api._store(POD, {**pod, "status": status}, "MODIFIED")
    await plane.until(lambda: plane.ready(EVENT_TRANSFORM, "x"))
    await plane.until(lambda: any(leads_to(plane).values()))
    return Client(plane)


def named(name: str, spec: Obj) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def leads_to(plane: ControlPlane) -> dict[str, Any]:
    """The addresses behind each port of the Service's name."""
    found = [one for one in plane.records().values() if isinstance(one, ServiceName) and one.host == HOST]
    return {port: list(addresses) for one in found for port, addresses in one.ports.items()}


def status(plane: ControlPlane) -> Obj:
    return dict((plane.api.get(EVENT_TRANSFORM, "ns", "x") or {}).get("status") or {})


def ports_of(plane: ControlPlane) -> dict[int, int]:
    service = plane.api.get(SERVICE, "ns", "x-jsonata") or {"spec": {"ports": []}}
    return {port["port"]: port["targetPort"] for port in service["spec"]["ports"]}


async def test_its_name_leads_to_its_pods_only_where_no_tokens_are_asked_for(
    plane: ControlPlane, client: Client
) -> None:
    assert leads_to(plane) == {"80": ["127.0.0.1:1"]}
    assert status(plane)["address"] == {"name": "http", "url": f"http://{HOST}", "audience": AUDIENCE}
    plane.switch(authentication_oidc="disabled")
    await plane.until(lambda: leads_to(plane) == {"80": ["127.0.0.1:41234"]})
    await plane.until(lambda: "audience" not in (status(plane).get("address") or {"audience": ""}))
    assert plane.context.service_guards == {}


async def test_a_request_with_a_token_for_it_is_passed_on_to_its_pod(client: Client) -> None:
    answer = await client.send(OWN, "/a%2Fb?c=d", traceparent="00-1")
    assert (answer.status_code, answer.text, answer.headers["ce-type"]) == (200, "changed", "changed")
    assert "connection" not in answer.headers
    [asked] = client.pods.asked
    assert (asked.method, str(asked.url), asked.content) == ("POST", "http://127.0.0.1:41234/a%2Fb?c=d", b"{}")
    assert (asked.headers["host"], asked.headers["ce-id"], asked.headers["traceparent"]) == (HOST, "1", "00-1")
    assert "authorization" not in asked.headers, "the token is for the transform, and not for what it calls"


async def test_an_answer_is_passed_back_as_it_is_and_has_at_most_the_bytes_of_an_event(client: Client) -> None:
    packed = gzip.compress(bytes(100_000))
    client.pods.body, client.pods.headers = packed, {"content-encoding": "gzip"}
    answer = await client.send(OWN)
    assert (answer.status_code, answer.num_bytes_downloaded) == (200, len(packed))
    assert client.pods.asked[0].headers["accept-encoding"] == "identity"
    client.pods.body, client.pods.headers = bytes(1001), {}
    answer = await client.send(OWN)
    assert (answer.status_code, answer.text) == (502, "the Pod's response has more than 1000 bytes\n")


async def test_nothing_else_reaches_its_pod(plane: ControlPlane, client: Client) -> None:
    missing = await client.send()
    assert (missing.status_code, missing.headers["www-authenticate"]) == (401, "Bearer")
    assert (await client.send("forged")).status_code == 401
    assert (await client.send(OTHER)).status_code == 403
    assert (await client.send(OWN, host="other-jsonata.ns.svc.cluster.local")).status_code == 503
    assert (await client.send(OWN, host="x-jsonata")).status_code == 503
    assert (await Client(plane, "https").send(OWN)).status_code == 404, "transport-encryption is disabled"
    assert client.pods.asked == []


async def test_event_policies_say_who_may_send_what(plane: ControlPlane, client: Client) -> None:
    to = [{"ref": {"apiVersion": "eventing.knative.dev/v1alpha1", "kind": "EventTransform", "name": "x"}}]
    spec = {"to": to, "from": [{"sub": OTHER}], "filters": [{"exact": {"type": "t"}}]}
    plane.api.apply(EVENT_POLICY, named("p", spec))
    await plane.until(lambda: status(plane).get("policies"))
    assert status(plane)["policies"] == [{"name": "p", "apiVersion": "eventing.knative.dev/v1alpha1"}]
    assert (await client.send(OWN)).status_code == 403
    assert (await client.send(OTHER, ce_type="other")).status_code == 403
    assert (await client.send(OTHER, ce_specversion="9")).status_code == 400, "a filter needs an event"
    assert client.pods.asked == []
    assert (await client.send(OTHER)).status_code == 200


async def test_a_policy_that_is_not_ready_makes_it_unready(plane: ControlPlane, client: Client) -> None:
    missing = {"apiVersion": "sources.knative.dev/v1", "kind": "PingSource", "name": "nobody", "namespace": "ns"}
    plane.api.apply(EVENT_POLICY, named("p", {"from": [{"ref": missing}]}))
    await plane.until(lambda: plane.condition(EVENT_TRANSFORM, "x", "EventPoliciesReady").get("status") == "False")
    assert not plane.ready(EVENT_TRANSFORM, "x")
    assert (await client.send(OWN)).status_code == 403


async def test_every_port_of_a_guarded_service_leads_to_what_answers_without_tls(
    plane: ControlPlane, client: Client
) -> None:
    for transport, ports in (("permissive", {443: 8080, 80: 8080}), ("strict", {443: 8080})):
        plane.switch(authentication_oidc="enabled", transport_encryption=transport)
        await plane.until(partial(lambda wanted: ports_of(plane) == wanted, ports))
        await plane.until(
            partial(lambda wanted: leads_to(plane) == {str(port): [GUARDS[str(port)]] for port in wanted}, ports)
        )
    assert (await client.send(OWN)).status_code == 404
    assert (await Client(plane, "https").send(OWN)).status_code == 200


async def test_a_request_is_refused_while_no_pod_is_ready(plane: ControlPlane, client: Client) -> None:
    [pod] = plane.api.all(POD).values()
    plane.api._store(POD, {**pod, "status": {**pod["status"], "conditions": []}}, "MODIFIED")
    await plane.until(lambda: leads_to(plane) == {"80": []})
    assert ((await client.send(OWN)).status_code, client.pods.asked) == (503, [])


async def test_a_transform_that_is_gone_is_not_answered_for(plane: ControlPlane, client: Client) -> None:
    plane.api.remove(EVENT_TRANSFORM, Key("ns", "x"))
    await plane.until(lambda: not plane.context.service_guards)
    assert (await client.send(OWN)).status_code == 503


def test_a_host_names_a_service_in_full_or_with_its_namespace() -> None:
    for host in (HOST, f"{HOST}:443", f"{HOST}.", "x-jsonata.ns.svc", "X-jsonata.ns"):
        assert service_of(host) == Key("ns", "x-jsonata")
    for host in ("", "x-jsonata", "a.b.c", "127.0.0.1:80", "x-jsonata..svc"):
        assert service_of(host) is None


async def test_each_service_shows_a_certificate_for_its_own_name(
    plane: ControlPlane, client: Client, settings: Settings
) -> None:
    made: list[tuple[str, ...]] = []

    def tls_of(names: tuple[str, ...]) -> ServerTls:
        made.append(names)
        return ServerTls(settings, make=InMemoryCertificate(settings, "guarded", names))

    shown = GuardedCertificates(plane.context.service_guards, tls_of)
    authority = own_authority.authority_certificate(settings.data_dir / FOLDER, datetime.now(UTC)).decode()
    trusting = ssl.create_default_context(cadata=authority)
    for _ in range(2):
        handshake(shown.context, trusting, HOST)
    assert made == [(HOST, "x-jsonata.ns.svc")], "it is made once"
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        handshake(shown.context, trusting, "other-jsonata.ns.svc.cluster.local")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Both ends in memory. Raises what the client fails with."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for end in (asking, serving):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                if end is asking:
                    raise
    assert asking.version()
