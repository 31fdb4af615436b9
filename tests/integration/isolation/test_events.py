"""Routes, channels, sources and sinks of one namespace get no event, token or signature of another, and send nothing to
addresses that are denied to it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.integration.isolation.shop_pods import Pods, pod, sender, shell
from tests.integration.isolation.tenants import BANK, PRIVATE, SHOP, Answer, Caller, Listener, Obj, path_of
from tests.running import Stack
from tests.waiting import eventually

EVENTING, MESSAGING, ALPHA = "eventing.knative.dev/v1", "messaging.knative.dev/v1", "eventing.knative.dev/v1alpha1"
FEATURES = "/api/v1/namespaces/knative-eventing/configmaps/config-features"


def obj(version: str, kind: str, name: str, spec: Obj, **metadata: Any) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def trigger(name: str, uri: str, broker: str = "orders", **more: Any) -> Obj:
    annotations = more.pop("annotations", {})
    spec = {"broker": broker, "subscriber": {"uri": uri}, **more}
    return obj(EVENTING, "Trigger", name, spec, annotations=annotations)


def ready(admin: Caller, made: Obj, namespace: str = SHOP) -> Obj:
    """The object once it is ready."""
    path = path_of(made, namespace, made["metadata"]["name"])

    def look() -> Obj | None:
        found = admin.get(path)
        conditions = (found.get("status") or {}).get("conditions") or []
        return found if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions) else None

    found: Obj = eventually(look, 120)
    return found


def send(url: str, data: str = "{}", **headers: str) -> int:
    """Posts an event and returns the status."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    sent = {"ce-specversion": "1.0", "ce-id": str(uuid.uuid4()), "ce-source": "/test", "ce-type": "test"}
    try:
        connection.request("POST", parts.path, data, {**sent, "content-type": "application/json", **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture(scope="module")
def orders(admin: Caller, users: Mapping[str, Caller]) -> str:
    """The address of a Broker in `shop`."""
    users["eventing"].made(obj(EVENTING, "Broker", "orders", {}))
    return str(ready(admin, obj(EVENTING, "Broker", "orders", {}))["status"]["address"]["url"])


def to_bank(admin: Caller, data: str = "{}", **headers: str) -> int:
    """Sends an event to the bank's Broker."""
    return send(
        admin.get(f"/apis/{EVENTING}/namespaces/{BANK}/brokers/payments")["status"]["address"]["url"], data, **headers
    )


@pytest.fixture(scope="module")
def owner(users: Mapping[str, Caller]) -> Obj:
    """A Channel, to which InMemoryChannels say to belong so that their subscribers are not the controllers'."""
    return users["messaging"].made(obj(MESSAGING, "Channel", "owner", {}))


def channel(owner: Obj, name: str, subscriber: Obj) -> Obj:
    reference = {"apiVersion": MESSAGING, "kind": "Channel", "name": "owner", "uid": owner["metadata"]["uid"]}
    return obj(MESSAGING, "InMemoryChannel", name, {"subscribers": [subscriber]}, ownerReferences=[reference])


@pytest.mark.parametrize(
    "account",
    [
        "../../knative-eventing/serviceaccounts/eventing-controller",
        "../../bank/serviceaccounts/teller",
        "viewer",
    ],
)
def test_a_channel_sends_no_token_of_an_account_that_its_user_names(
    admin: Caller, users: Mapping[str, Caller], mine: Listener, owner: Obj, account: str
) -> None:
    name = f"tokens-{len(account)}"
    subscriber = {
        "uid": str(uuid.uuid4()),
        "generation": 1,
        "subscriberUri": f"{mine.url}/{name}",
        "subscriberAudience": "https://kubernetes.default.svc.cluster.local",
        "auth": {"serviceAccountName": account},
    }
    made = channel(owner, name, subscriber)
    answer = users["messaging"].create(made)
    if answer.status == 201:
        url = ready(admin, made)["status"]["address"]["url"]
        eventually(lambda: send(url) == 202 and mine.at(f"/{name}"), 60, every=1)
    else:
        assert answer.status in (400, 403, 422), answer
    assert not [one for one in mine.at(f"/{name}") if "authorization" in one.headers]


def test_a_subscriber_with_the_uid_of_another_takes_no_route_away(
    admin: Caller, users: Mapping[str, Caller], bank: Listener, mine: Listener, owner: Obj, orders: str
) -> None:
    uid = admin.get(f"/apis/{EVENTING}/namespaces/{BANK}/triggers/ledger")["metadata"]["uid"]
    made = channel(owner, "thief", {"uid": uid, "generation": 1, "subscriberUri": f"{mine.url}/thief"})
    answer = users["messaging"].create(made)
    try:
        if answer.status == 201:
            # What is made afterwards is published afterwards, or with it.
            eventually(lambda: (admin.get(path_of(made, SHOP, "thief")).get("status") or {}).get("subscribers"), 60)
            users["developer"].made(trigger("after-the-thief", f"{mine.url}/after"))
            ready(admin, trigger("after-the-thief", ""))
        else:
            assert answer.status in (400, 403, 422), answer
        seen = len(bank.at("/ledger"))
        assert to_bank(admin) == 202
        eventually(lambda: len(bank.at("/ledger")) > seen)
        assert not mine.at("/thief")
    finally:
        admin.call("DELETE", path_of(made, SHOP, "thief"))
        # Whatever has happened, the tests after this one have the bank's route.
        admin.patch(f"/apis/{EVENTING}/namespaces/{BANK}/triggers/ledger", {"metadata": {"annotations": {"seen": "1"}}})


def test_the_location_of_a_job_tells_nothing_of_other_objects(
    admin: Caller, users: Mapping[str, Caller], pods: Pods
) -> None:
    base = "http://job-sink.knative-eventing.svc.cluster.local/namespaces"
    rest = "name/n/sources/s/ids/i"
    up = "..%2F..%2F..%2F..%2Fapi%2Fv1%2Fnamespaces%2Fbank%2Fsecrets%2F"
    urls = [f"{base}/{up}{name}{end}/{rest}" for name in ("db", "none") for end in ("", "%3F", "%23")]
    words = [
        word
        for url in urls
        for word in ("-o", "/dev/null", "-w", "%{http_code}\\n", url, "--next", "-sS", "--path-as-is")
    ]
    eventually(
        lambda: admin.get(path_of({"apiVersion": "sinks.knative.dev/v1alpha1", "kind": "JobSink"}, BANK, "booking"))[
            "status"
        ]["address"],
        120,
    )
    codes = [line for line in pods.asked(users["editor"], "locations", *words[:-3]).splitlines() if line.isdecimal()]
    assert len(codes) == len(urls), "each has its answer"
    assert set(codes) <= {"400", "404"}


@pytest.fixture(scope="module")
def links(admin: Caller, orders: str) -> Iterator[None]:
    """Events of other namespaces may be taken, by users with the right."""
    admin.patch(FEATURES, {"data": {"cross-namespace-event-links": "enabled"}})
    allowed = trigger("allowed", "http://127.0.0.1:9/")
    allowed["spec"] = {"brokerRef": reference("Broker", "payments"), "subscriber": allowed["spec"]["subscriber"]}
    eventually(lambda: admin.create(allowed).status in (201, 409))
    admin.call("DELETE", path_of(allowed, SHOP, "allowed"))
    yield
    admin.patch(FEATURES, {"data": {"cross-namespace-event-links": "disabled"}})


def reference(kind: str, name: str) -> Obj:
    version = EVENTING if kind == "Broker" else MESSAGING
    return {"apiVersion": version, "kind": kind, "name": name, "namespace": BANK}


def taking(name: str, kind: str, target: str, mine: Listener) -> Obj:
    """A Trigger or Subscription that takes events of `bank`, those of the past as well."""
    subscriber = {"uri": f"{mine.url}/links"}
    past = {"penstock.dev/start-from": "earliest"}
    if kind == "Broker":
        spec = {"brokerRef": reference(kind, target), "subscriber": subscriber}
        return obj(EVENTING, "Trigger", name, spec, annotations=past)
    spec = {"channel": reference(kind, target), "subscriber": subscriber}
    return obj(MESSAGING, "Subscription", name, spec, annotations=past)


@pytest.mark.parametrize("user", ["developer", "eventing", "messaging", "routing", "admin"])
@pytest.mark.parametrize(
    "target", [("Broker", "payments"), ("InMemoryChannel", "transfers"), ("Channel", "transfers-2")]
)
def test_nothing_takes_events_of_another_namespace_without_the_right_to(
    links: None, users: Mapping[str, Caller], mine: Listener, user: str, target: tuple[str, str]
) -> None:
    made = taking(f"link-{user}-{target[1]}", *target, mine)
    answer = users[user].create(made)
    assert answer.status in (400, 403), answer
    applied = users[user].call(
        "PATCH",
        f"{path_of(made, SHOP, made['metadata']['name'])}?fieldManager=me",
        json.dumps(made),
        "application/apply-patch+yaml",
    )
    assert applied.status in (400, 403), applied
    assert not mine.at("/links")


def test_a_route_that_is_there_is_not_pointed_at_another_namespace(
    links: None, admin: Caller, users: Mapping[str, Caller], mine: Listener, orders: str
) -> None:
    made = trigger("pointed", f"{mine.url}/links")
    users["developer"].made(made)
    path = path_of(made, SHOP, "pointed")
    for change in (
        {"spec": {"broker": None, "brokerRef": reference("Broker", "payments")}},
        {"spec": {"brokerRef": reference("Broker", "payments")}},
        {"spec": {"broker": "../../bank/brokers/payments"}},
    ):
        assert users["developer"].patch(path, change).status in (400, 403, 422)
    assert not mine.at("/links")


REPLAYED: Mapping[str, Obj] = {
    "target": {"target": {"kind": "Trigger", "name": "ledger", "namespace": BANK}},
    "path": {"target": {"kind": "Trigger", "name": "../../bank/triggers/ledger"}},
    "source": {"source": {"kind": "Broker", "name": "payments", "namespace": BANK}, "sink": {"uri": "SINK"}},
    "source-path": {"source": {"kind": "Broker", "name": "../../bank/brokers/payments"}, "sink": {"uri": "SINK"}},
}


@pytest.mark.parametrize("how", REPLAYED)
def test_a_replay_brings_no_events_of_another_namespace(
    admin: Caller, users: Mapping[str, Caller], bank: Listener, mine: Listener, how: str
) -> None:
    spec = json.loads(json.dumps(REPLAYED[how]).replace("SINK", f"{mine.url}/replay"))
    made = obj("penstock.dev/v1alpha1", "Replay", f"replay-{how}", spec)
    before = len(bank.received)
    answer = users["admin"].create(made)
    if answer.status == 201:
        # One that is accepted says soon that there is nothing to replay.
        conditions = eventually(
            lambda: (admin.get(path_of(made, SHOP, f"replay-{how}")).get("status") or {}).get("conditions")
        )
        assert any(one["status"] != "True" and "NotFound" in str(one.get("reason")) for one in conditions), conditions
        users["admin"].call("DELETE", path_of(made, SHOP, f"replay-{how}"))
    else:
        assert answer.status in (400, 403, 422), answer
    assert not mine.at("/replay")
    assert len(bank.received) == before


@pytest.mark.parametrize("annotation", ["sign-with", "client-certificate"])
def test_nothing_is_signed_with_a_secret_of_another_namespace(
    admin: Caller, users: Mapping[str, Caller], mine: Listener, orders: str, annotation: str
) -> None:
    """A second Trigger shows when the event has been through, as nothing is sent where there is no Secret."""
    foreign = {f"penstock.dev/{annotation}": "../../bank/secrets/signing"}
    made = trigger(f"signed-{annotation}", f"{mine.url}/{annotation}", annotations=foreign)
    answer = users["developer"].create(made)
    assert answer.status in (201, 400, 403, 422), answer
    beside = trigger(f"beside-{annotation}", f"{mine.url}/beside-{annotation}")
    users["developer"].made(beside)
    ready(admin, beside)
    assert send(orders) == 202
    eventually(lambda: mine.at(f"/beside-{annotation}"))
    assert not [one for one in mine.at(f"/{annotation}") if "webhook-signature" in one.headers]
    for one in (made, beside):
        users["developer"].call("DELETE", path_of(one, SHOP, one["metadata"]["name"]))


def test_a_binding_changes_no_workload_of_another_namespace(admin: Caller, users: Mapping[str, Caller]) -> None:
    subject = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vault", "namespace": BANK}
    spec = {"subject": subject, "sink": {"uri": "http://shop.invalid/"}}
    made = obj("sources.knative.dev/v1", "SinkBinding", "foreign", spec)
    assert users["sources"].create(made).status in (201, 400, 403, 422)
    # The bank's own binding adds its variables to the Deployment when that is changed.
    path = f"/apis/apps/v1/namespaces/{BANK}/deployments/vault"
    assert admin.patch(path, {"metadata": {"annotations": {"changed": "by-the-bank"}}}).status == 200
    assert "shop.invalid" not in json.dumps(admin.get(path))
    users["sources"].call("DELETE", path_of(made, SHOP, "foreign"))


def test_a_source_sees_no_objects_of_another_namespace(
    admin: Caller, users: Mapping[str, Caller], mine: Listener
) -> None:
    """`viewer` may read the ConfigMaps of `shop` and no others."""
    for name, selector in (("all", {}), ("bank", {"matchLabels": {"kubernetes.io/metadata.name": BANK}})):
        spec = {
            "serviceAccountName": "viewer",
            "mode": "Resource",
            "resources": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "namespaceSelector": selector,
            "sink": {"uri": f"{mine.url}/watched"},
        }
        made = obj("sources.knative.dev/v1", "ApiServerSource", f"watch-{name}", spec)
        users["sources"].made(made)

        def told(path: str = path_of(made, SHOP, f"watch-{name}")) -> bool:
            conditions = (admin.get(path).get("status") or {}).get("conditions") or []
            return any(one["type"] == "SufficientPermissions" and one["status"] == "False" for one in conditions)

        eventually(told)
        users["sources"].call("DELETE", path_of(made, SHOP, f"watch-{name}"))
    assert not [one for one in mine.at("/watched") if PRIVATE in one]


def test_an_owner_in_another_namespace_holds_nothing_up(admin: Caller, users: Mapping[str, Caller]) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "short-lived"}}
    uid = admin.made(owner, BANK)["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "short-lived", "uid": uid, "blockOwnerDeletion": True}
    metadata = {"name": "dependent", "ownerReferences": [reference], "finalizers": ["shop.example/never"]}
    answer = users["editor"].create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert answer.status in (201, 403, 422), answer
    try:
        foreground = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        assert admin.call("DELETE", path_of(owner, BANK, "short-lived"), foreground).status in (200, 202)
        eventually(lambda: admin.call("GET", path_of(owner, BANK, "short-lived")).status == 404, 20)
    finally:
        admin.patch(path_of(owner, SHOP, "dependent"), {"metadata": {"finalizers": None}})


def test_a_trigger_sends_nothing_to_a_denied_address(
    admin: Caller, users: Mapping[str, Caller], mine: Listener, denied: Listener, orders: str
) -> None:
    letters = {"retry": 0, "deadLetterSink": {"uri": f"{mine.url}/letters"}}
    made = trigger("denied", f"{denied.url}/trigger", delivery=letters)
    users["developer"].made(made)
    ready(admin, made)
    assert send(orders) == 202
    eventually(lambda: mine.at("/letters"))
    assert not denied.received
    users["developer"].call("DELETE", path_of(made, SHOP, "denied"))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"INPUT_METHOD": "GET", "INPUT_HEADERS": "Metadata-Flavor:Google"},
        {"PROBE_SINK": "true", "PROBE_SINK_TIMEOUT": "1"},
        {"INPUT_YAML": "DENIED"},
    ],
    ids=["POST", "GET", "probe", "YAML"],
)
def test_a_built_in_program_sends_nothing_to_a_denied_address(
    users: Mapping[str, Caller],
    pods: Pods,
    mine: Listener,
    denied: Listener,
    request: pytest.FixtureRequest,
    values: dict[str, str],
) -> None:
    name = f"denied-{request.node.callspec.id.lower()}"
    url = f"{denied.url}/{name}"
    values = {variable: value.replace("DENIED", url) for variable, value in values.items()}
    spec = sender(mine.url if "INPUT_YAML" in values else url, **values)
    assert not isinstance(pods.ran(users["editor"], pod(name, {"containers": [spec]})), Answer)
    assert not denied.at(f"/{name}")


def test_no_port_of_the_stack_leads_to_a_denied_address(
    stack: Stack, admin: Caller, users: Mapping[str, Caller], pods: Pods, denied: Listener
) -> None:
    """A proxy sends a request on to the host that it names: with the account of penstock, and whatever is denied."""
    ports = listening(stack)
    assert len(ports) > 8
    named = {"INPUT_METHOD": "GET", "INPUT_HEADERS": f"Host:{urlsplit(denied.url).netloc}"}
    each = [{**sender(f"http://127.0.0.1:{port}/through", **named), "name": f"port-{port}"} for port in ports]
    assert not isinstance(pods.ran(users["editor"], pod("through", {"containers": each})), Answer)
    eventually(
        lambda: admin.get(f"/api/v1/namespaces/{SHOP}/pods/through")["status"]["phase"] in ("Succeeded", "Failed")
    )
    assert not denied.at("/through")
    # So does a program of another account, which has not the password of the proxies either.
    aim = urlsplit(denied.url)
    for port in ports:
        for tunnelled in (False, True):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                if tunnelled:
                    connection.set_tunnel(str(aim.hostname), aim.port)
                connection.request("GET", "/through", headers={"Host": aim.netloc})
                connection.getresponse().read()
    assert not denied.at("/through")


def listening(stack: Stack) -> list[int]:
    """The ports of the stack's own processes."""
    first = psutil.Process(stack.record["pid"])
    found = set[int]()
    for process in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            ports = [one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
            found |= {port for port in ports if port}
    return sorted(found)


def test_a_built_in_program_sees_nothing_of_the_console(stack: Stack, users: Mapping[str, Caller], pods: Pods) -> None:
    for page in ("events", "live/events", "stack", "routes/trigger/bank/ledger"):
        method = {"INPUT_METHOD": "GET", "INPUT_HEADERS": "Accept:text/html"}
        spec = sender(f"{stack.settings.console_url.rstrip('/')}/{page}", **method)
        name = f"console-{page.replace('/', '-')}"
        assert not isinstance(pods.ran(users["editor"], pod(name, {"containers": [spec]})), Answer)
        log = pods.log(name)
        assert PRIVATE not in log
        assert "kind: Trigger" not in log


@pytest.fixture(scope="module")
def transforms(admin: Caller, users: Mapping[str, Caller], mine: Listener, denied: Listener) -> Mapping[str, str]:
    """The addresses of EventTransforms: to the denied address, and to a sink whose answer grows when it is unpacked."""
    mine.answers["/bomb"] = {"content-encoding": "gzip"}, gzip.compress(bytes(BOMB))
    sinks = {"denied": f"{denied.url}/transform", "bomb": f"{mine.url}/bomb"}
    for name, sink in sinks.items():
        spec = {"jsonata": {"expression": "$"}, "sink": {"uri": sink}}
        users["eventing"].made(obj(ALPHA, "EventTransform", name, spec))
    return {name: ready(admin, obj(ALPHA, "EventTransform", name, {}))["status"]["address"]["url"] for name in sinks}


BOMB = 64 * 2**20
EVENT = [word for header in ("specversion: 1.0", "id: 1", "source: /me", "type: t") for word in ("-H", f"ce-{header}")]


def test_a_transform_sends_nothing_to_a_denied_address(
    users: Mapping[str, Caller], pods: Pods, denied: Listener, transforms: Mapping[str, str]
) -> None:
    words = (*EVENT, "-d", "{}", "-o", "/dev/null", "-w", "%{http_code}\\n", transforms["denied"])
    assert "200" not in pods.asked(users["editor"], "transform-denied", *words).splitlines()
    assert not denied.at("/transform")


def test_the_answer_of_a_sink_does_not_grow_in_a_transform(
    users: Mapping[str, Caller], pods: Pods, mine: Listener, transforms: Mapping[str, str]
) -> None:
    words = (*EVENT, "-d", "{}", "-o", "/dev/null", "-w", "size %{size_download}\\n", transforms["bomb"])
    said = pods.asked(users["editor"], "transform-bomb", *words)
    [size] = [int(line.removeprefix("size ")) for line in said.splitlines() if line.startswith("size ")]
    assert mine.at("/bomb")
    assert size < BOMB // 2


def test_a_request_is_not_sent_where_the_status_of_a_broker_points(
    admin: Caller, users: Mapping[str, Caller], pods: Pods, denied: Listener
) -> None:
    """Who may do everything with Brokers may write their status, too."""
    broker = {**obj(EVENTING, "Broker", "misled", {}), "metadata": {"name": "misled"}}
    users["eventing"].made(broker)
    ready(admin, broker)
    spec = {"brokerRef": {"apiVersion": EVENTING, "kind": "Broker", "name": "misled"}, "timeout": "PT1S"}
    made = obj(ALPHA, "RequestReply", "asking", spec)
    users["eventing"].made(made)
    url = ready(admin, made)["status"]["address"]["url"]
    status = {"status": {"address": {"url": f"{denied.url}/broker"}}}
    path = f"{path_of(broker, SHOP, 'misled')}/status"
    assert users["eventing"].patch(path, status).status in (200, 403)
    asked = f"for i in 1 2 3 4 5; do curl -sS --max-time 30 {' '.join(map(repr, EVENT))} -d '{{}}' {url}; done"
    users["editor"].made(pod("asking", {"containers": [shell(asked)]}))

    def misled() -> bool:
        # The controller writes the address anew each time.
        users["eventing"].patch(path, status)
        return bool(pods.has_ended("asking"))

    eventually(misled, 120, every=0.01)
    assert not denied.at("/broker")


@pytest.fixture(scope="module")
def tokens_wanted(admin: Caller, bank: Listener) -> Iterator[str]:
    """The audience of the bank's Broker, where senders show tokens."""
    admin.patch(FEATURES, {"data": {"authentication-oidc": "enabled"}})
    path = f"/apis/{EVENTING}/namespaces/{BANK}/brokers/payments"
    audience = eventually(lambda: admin.get(path)["status"]["address"].get("audience"), 120)
    eventually(lambda: to_bank(admin) == 401, 120)
    yield audience
    admin.patch(FEATURES, {"data": {"authentication-oidc": "disabled"}})
    eventually(lambda: to_bank(admin) == 202, 120)


def sent_with(admin: Caller, token: str) -> int:
    """What the bank's Broker answers to a token. Until the ingress has the issuer's keys, that is 503."""
    eventually(lambda: to_bank(admin, authorization=f"Bearer {token}") != 503)
    return to_bank(admin, authorization=f"Bearer {token}")


def test_no_event_is_sent_to_a_broker_of_another_namespace_with_a_token_of_the_own(
    tokens_wanted: str, admin: Caller, users: Mapping[str, Caller], bank: Listener
) -> None:
    before = len(bank.received)
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [tokens_wanted]},
    }
    for account in ("editor", "developer"):
        answer = users["editor"].call("POST", f"/api/v1/namespaces/{SHOP}/serviceaccounts/{account}/token", asked)
        assert sent_with(admin, answer.object["status"]["token"]) == 403
    assert sent_with(admin, users["admin"].token) == 401
    teller = admin.call("POST", f"/api/v1/namespaces/{BANK}/serviceaccounts/teller/token", asked).object
    assert to_bank(admin, "the-last", authorization=f"Bearer {teller['status']['token']}") == 202
    eventually(lambda: [one for one in bank.at("/ledger") if "the-last" in one])
    assert len(bank.received) == before + 1
