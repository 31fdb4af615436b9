"""The RBAC profile: whoever has the developer's role, and nothing else, develops, deploys and manages event routing.

The profile of the document names resources in the singular ("broker"), where Kubernetes' rules need the plural; the
role here is the profile with the plurals. Everything is done with a token of the ServiceAccount that it is bound to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from tests.conformance.world import Sink, World, binary
from tests.waiting import eventually

RBAC = "rbac.authorization.k8s.io/v1"
VERBS = ["get", "list", "create", "update", "patch", "delete"]
PROFILE = {
    "kind": "Role",
    "metadata": {"name": "knative-developer"},
    "rules": [
        {"apiGroups": ["eventing.knative.dev"], "resources": ["brokers", "triggers"], "verbs": VERBS},
        {"apiGroups": ["messaging.knative.dev"], "resources": ["channels", "subscriptions"], "verbs": VERBS},
    ],
}
OBJECTS = """
kind: Broker
metadata: {name: b}
---
kind: Trigger
metadata: {name: t}
spec: {broker: b, subscriber: {uri: "{sinks}/rbac-trigger"}}
---
kind: Channel
metadata: {name: c}
---
kind: Subscription
metadata: {name: s}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}
  subscriber: {uri: "{sinks}/rbac-subscription"}
"""


@pytest.fixture(scope="module")
def file(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of a ServiceAccount that has the profile."""
    world.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "developer"}})
    world.create({"apiVersion": RBAC, **PROFILE})
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "developer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "knative-developer"},
        "subjects": [{"kind": "ServiceAccount", "name": "developer", "namespace": world.namespace}],
    }
    world.create(binding)
    file = tmp_path_factory.mktemp("rbac") / "developer"
    flags = ["--service-account", f"{world.namespace}/developer", "--output", str(file)]
    made = CliRunner().invoke(app, ["kubeconfig", *flags, "--data-dir", str(world.stack.kubeconfig.parent)])
    assert made.exit_code == 0, made.output
    return file


@pytest.fixture(scope="module")
def developer(world: World, file: Path) -> Iterator[World]:
    """The world as the developer acts in it."""
    seen = World(world.stack, world.sinks, world.namespace, file)
    yield seen
    seen.disconnect()


@pytest.mark.assertion("cp-rbac-01")
def test_the_developer_profile_is_enough_to_manage_event_routing(developer: World) -> None:
    sinks = {name: developer.sinks.open(f"rbac-{name}") for name in ("trigger", "subscription")}
    developer.all_ready(developer.make(OBJECTS))
    developer.send("Broker", "b", binary("of-b"))
    developer.send("Channel", "c", binary("of-c"))
    eventually(lambda: arrived(sinks["trigger"], "of-b"), 60)
    eventually(lambda: arrived(sinks["subscription"], "of-c"), 60)
    developer.patch("Trigger", "t", {"spec": {"filter": {"attributes": {"type": "other"}}}})
    developer.ready("Trigger", "t")
    assert "Immutable" in developer.refused(lambda: developer.patch("Trigger", "t", {"spec": {"broker": "other"}}))
    for kind, name in (("Trigger", "t"), ("Broker", "b"), ("Subscription", "s"), ("Channel", "c")):
        developer.delete(kind, name)
    assert 'brokers.eventing.knative.dev "b" not found' in developer.refused(lambda: developer.get("Broker", "b"))


def arrived(sink: Sink, ident: str) -> bool:
    assert sink.got(ident)
    return True


@pytest.mark.assertion("cp-rbac-01")
def test_the_developer_profile_allows_nothing_else(developer: World, file: Path) -> None:
    user = f'User "system:serviceaccount:{developer.namespace}:developer" cannot'
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert user in developer.refused(lambda: developer.create(config))
    assert user in developer.refused(lambda: developer.crd("brokers.eventing.knative.dev"))
    outside = World(developer.stack, developer.sinks, "default", file)
    broker = {"kind": "Broker", "metadata": {"name": "b"}, "spec": {}}
    assert user in outside.refused(lambda: outside.create(broker))
    outside.disconnect()
