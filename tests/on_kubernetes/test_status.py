"""Controllers and ingress on a real API server, with the rights that `penstock install` gives them: what they say of
objects, and that no request of theirs is refused.

Without a pipeline: Triggers and Subscriptions wait for it, and say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from penstock.engine.ports import free_ports
from penstock.install import access
from penstock.kafka.clients import embedded_conf
from penstock.settings import Settings
from tests.waiting import eventually
from tools.cluster.kubernetes import RealApi

Obj = dict[str, Any]
SECONDS = 180
CHANNELS = "channels.messaging.knative.dev"
"""In full: `channel` is also a category."""
NOT_TRIED = frozenset({"replays/status", "jobs", "namespaces", "serviceaccounts"})
"""Asked for by Replays, SinkBindings of Jobs, ApiServerSources with a selector of namespaces, and with OIDC enabled."""
CONTROL = f"system:serviceaccount:knative-eventing:{access.CONTROL}"
OBJECTS = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: orders, namespace: default}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: foreign, namespace: default, annotations: {eventing.knative.dev/broker.class: RabbitMQ}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders, namespace: default}
spec: {broker: orders, subscriber: {ref: {apiVersion: v1, kind: Service, name: shop}}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: lost, namespace: default}
spec: {broker: orders, subscriber: {ref: {apiVersion: v1, kind: Service, name: missing}}}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: default}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: parcels, namespace: default}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: parcels, namespace: default}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: parcels}
  subscriber: {uri: "http://sink.example/"}
---
apiVersion: flows.knative.dev/v1
kind: Sequence
metadata: {name: steps, namespace: default}
spec: {steps: [{uri: "http://one.example/"}, {uri: "http://two.example/"}]}
---
apiVersion: flows.knative.dev/v1
kind: Parallel
metadata: {name: branches, namespace: default}
spec: {branches: [{subscriber: {uri: "http://one.example/"}}]}
---
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {name: ordered, namespace: default}
spec: {type: ordered, reference: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: orders}}
---
apiVersion: sources.knative.dev/v1
kind: PingSource
metadata: {name: daily, namespace: default}
spec: {schedule: "0 0 1 1 *", sink: {uri: "http://sink.example/"}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: watcher, namespace: default}
---
apiVersion: sources.knative.dev/v1
kind: ApiServerSource
metadata: {name: pods, namespace: default}
spec:
  serviceAccountName: watcher
  resources: [{apiVersion: v1, kind: Pod}]
  sink: {uri: "http://sink.example/"}
---
apiVersion: sources.knative.dev/v1
kind: ContainerSource
metadata: {name: beats, namespace: default}
spec:
  template: {spec: {containers: [{name: beats, image: example/beats}]}}
  sink: {uri: "http://sink.example/"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bound, namespace: default}
spec:
  selector: {matchLabels: {app: bound}}
  template: {metadata: {labels: {app: bound}}, spec: {containers: [{name: c, image: example/c}]}}
---
apiVersion: sources.knative.dev/v1
kind: SinkBinding
metadata: {name: bound, namespace: default}
spec:
  subject: {apiVersion: apps/v1, kind: Deployment, name: bound}
  sink: {uri: "http://sink.example/"}
"""


@pytest.fixture(scope="module")
def controlled(cluster: RealApi, kafka: Settings) -> Iterator[RealApi]:
    """The cluster with an ingress and the controllers at work, and the objects."""
    (port,) = free_ports(1)
    conf = json.dumps(embedded_conf(kafka))
    common = {"kafka": kafka.bootstrap, "kafka_conf": conf, "partitions": kafka.partitions}
    address = f"http://{cluster.address}:{port}"
    ingress = cluster.start_role("ingress", access.INGRESS, port=port, **common)
    control = cluster.start_role("control", access.CONTROL, address_base=address, **common)
    cluster.wait_ready("ingress", ingress)
    cluster.wait_ready("control", control)
    cluster.kubectl("apply", "-f", "-", stdin=OBJECTS)
    yield cluster
    for role in ("control", "ingress"):
        cluster.stop(role)


def stored(cluster: RealApi, kind: str, name: str) -> Obj:
    found: Obj = json.loads(cluster.kubectl("get", kind, name, "-o", "json"))
    return found


def conditions(obj: Obj) -> dict[str, str]:
    return {one["type"]: one["status"] for one in (obj.get("status") or {}).get("conditions") or []}


def settled(cluster: RealApi, kind: str, name: str, condition: str, status: str) -> Obj:
    """The object, once it says that of itself."""

    def look() -> Obj | None:
        found = stored(cluster, kind, name)
        return found if conditions(found).get(condition) == status else None

    found: Obj = eventually(look, SECONDS)
    return found


def test_a_broker_is_ready_and_addressable(controlled: RealApi) -> None:
    broker = settled(controlled, "broker", "orders", "Ready", "True")
    assert broker["status"]["address"]["url"].endswith("/default/orders")
    assert broker["status"]["observedGeneration"] == broker["metadata"]["generation"]


def test_a_broker_of_another_class_is_left_alone(controlled: RealApi) -> None:
    settled(controlled, "broker", "orders", "Ready", "True")
    foreign = stored(controlled, "broker", "foreign")
    assert "status" not in foreign
    assert "spec" not in foreign or foreign["spec"] == {}


def test_a_trigger_says_what_it_waits_for(controlled: RealApi) -> None:
    found = settled(controlled, "trigger", "orders", "SubscriberResolved", "True")
    assert conditions(found)["BrokerReady"] == "True"
    assert found["status"]["subscriberUri"] == "http://shop.default.svc.cluster.local"
    lost = settled(controlled, "trigger", "lost", "Ready", "False")
    (reason,) = [one for one in lost["status"]["conditions"] if one["type"] == "SubscriberResolved"]
    assert 'services "missing" not found' in reason["message"]


def test_a_channel_gets_its_backing_channel(controlled: RealApi) -> None:
    settled(controlled, "inmemorychannel", "parcels", "Ready", "True")
    settled(controlled, CHANNELS, "parcels", "Ready", "True")
    listed = stored(controlled, "inmemorychannel", "parcels")["spec"]["subscribers"]
    assert [one["subscriberUri"] for one in listed] == ["http://sink.example/"]


def test_flows_are_made_of_channels_and_subscriptions(controlled: RealApi) -> None:
    settled(controlled, "sequence", "steps", "ChannelsReady", "True")
    settled(controlled, "parallel", "branches", "ChannelsReady", "True")


def test_sources_find_their_sinks(controlled: RealApi) -> None:
    for kind, name in (("pingsource", "daily"), ("apiserversource", "pods"), ("sinkbinding", "bound")):
        settled(controlled, kind, name, "SinkProvided", "True")
    settled(controlled, "apiserversource", "pods", "SufficientPermissions", "False")

    def bound() -> bool:
        (container,) = stored(controlled, "deployment", "bound")["spec"]["template"]["spec"]["containers"]
        return any(one["name"] == "K_SINK" for one in container.get("env") or [])

    eventually(bound, SECONDS)
    eventually(lambda: "beats" in controlled.kubectl("get", "deployments", "-o", "name"), SECONDS)


def test_trust_bundles_are_copied_to_sinkbindings(controlled: RealApi) -> None:
    label = {"networking.knative.dev/trust-bundle": "true"}
    metadata = {"name": "authorities", "namespace": "knative-eventing", "labels": label}
    bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": ""}}
    controlled.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(bundle))

    def copies() -> bool:
        return "kne-bundle" in controlled.kubectl("get", "configmaps", "-n", "default", "-o", "name")

    eventually(copies, SECONDS)
    controlled.kubectl("delete", "configmap", "authorities", "-n", "knative-eventing")
    eventually(lambda: not copies(), SECONDS)


def test_what_is_deleted_leaves_nothing_forbidden_behind(controlled: RealApi) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(OBJECTS)]
    for kind, name in names:
        controlled.kubectl("delete", f"{kind.lower()}s" if kind != "Channel" else CHANNELS, name, "--wait=false")
    eventually(lambda: not controlled.kubectl("get", f"brokers,triggers,{CHANNELS}", "-o", "name"), SECONDS)


def requests_of(cluster: RealApi, user: str) -> set[tuple[str, str, str]]:
    """What the user has asked for: verb, group and resource."""
    asked = set()
    for line in cluster.audited():
        if line["user"]["username"] != user or "objectRef" not in line:
            continue
        place = line["objectRef"]
        resource = place.get("resource", "") + (f"/{place['subresource']}" if "subresource" in place else "")
        asked.add((line["verb"], place.get("apiGroup", ""), resource))
    return asked


def test_no_request_was_forbidden(controlled: RealApi) -> None:
    refused = [
        (line["user"]["username"], line["verb"], line["requestURI"])
        for line in controlled.audited()
        if line.get("responseStatus", {}).get("code") == 403
        and "impersonatedUser" not in line
        and line["user"]["username"].startswith("system:serviceaccount:knative-eventing:")
    ]
    assert refused == []


def test_no_right_is_without_use(controlled: RealApi) -> None:
    """Each rule, as a whole, is asked for: without it something above would have been forbidden."""
    asked = requests_of(controlled, CONTROL)
    unused = [
        rule
        for rule in [*access.CONTROL_RULES, *access.CONTROL_BINDING_RULES, *access.CONTROL_WATCHING_RULES]
        if rule["verbs"] != ["impersonate"]
        and not NOT_TRIED.intersection(rule["resources"])
        and not any(
            group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
            for verb, group, resource in asked
        )
    ]
    assert unused == []
