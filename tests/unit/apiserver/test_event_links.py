"""Events of another namespace: who may have them delivered, by the roles of the embedded API."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.resources.admission import CONTROLLER_USER
from tests.unit.apiserver.api_in_process import RBAC, ApiInProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

Obj = dict[str, Any]
TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/shop/triggers"
SUBSCRIPTIONS = "/apis/messaging.knative.dev/v1/namespaces/shop/subscriptions"
FEATURES = "/api/v1/namespaces/knative-eventing/configmaps/config-features"
REFUSED = "is not authorized to get target resource in namespace: bank"


async def prepared(api: ApiInProcess) -> None:
    """The namespaces, users who administer one of them, and the feature."""
    if (await api.call("GET", "/api/v1/namespaces/bank"))[0] == 200:
        return
    for name in ("shop", "bank"):
        await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
    for user in ("dev", "chief", "guest"):
        await bound(api, "shop", user, "admin", {"kind": "User", "name": user})
    patch = {"data": {"cross-namespace-event-links": "enabled"}}
    assert (await api.call("PATCH", FEATURES, patch, media="application/merge-patch+json"))[0] == 200


async def bound(api: ApiInProcess, namespace: str, name: str, role: str, subject: Obj) -> None:
    binding = {
        "metadata": {"name": f"{name}-{role}"},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    await api.made(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)


def trigger(name: str) -> Obj:
    broker = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "payments", "namespace": "bank"}
    annotations = {"penstock.dev/start-from": "earliest"}
    spec = {"brokerRef": broker, "subscriber": {"uri": "http://s"}}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def subscription(name: str, kind: str) -> Obj:
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": kind, "name": "payments", "namespace": "bank"}
    return {"metadata": {"name": name}, "spec": {"channel": channel, "subscriber": {"uri": "http://s"}}}


async def test_the_administrator_of_one_namespace_gets_no_events_of_another(api: ApiInProcess) -> None:
    await prepared(api)
    for path, obj in (
        (TRIGGERS, trigger("t")),
        (SUBSCRIPTIONS, subscription("s", "Channel")),
        (SUBSCRIPTIONS, subscription("s", "InMemoryChannel")),
    ):
        status, refused = await api.call("POST", path, obj, user="dev")
        assert (status, f"user dev {REFUSED}" in refused["message"]) == (400, True), refused
        patch = {"apiVersion": path[6:].partition("/namespaces")[0], "kind": "", **obj}
        patch["kind"] = "Trigger" if path == TRIGGERS else "Subscription"
        status, refused = await api.call(
            "PATCH",
            f"{path}/{obj['metadata']['name']}?fieldManager=dev",
            patch,
            user="dev",
            media="application/apply-patch+yaml",
        )
        assert (status, REFUSED in refused["message"]) == (400, True), refused


async def test_the_controllers_take_no_events_of_another_namespace_for_a_user(api: ApiInProcess) -> None:
    await prepared(api)
    for path, obj in ((TRIGGERS, trigger("c")), (SUBSCRIPTIONS, subscription("c", "Channel"))):
        status, refused = await api.call("POST", path, obj, user=CONTROLLER_USER)
        assert (status, f"user {CONTROLLER_USER} {REFUSED}" in refused["message"]) == (400, True), refused


@pytest.mark.parametrize("subject", [{"kind": "User", "name": "chief"}, {"kind": "Group", "name": "auditors"}])
async def test_the_role_that_knative_has_for_it_lets_a_user_or_a_group(api: ApiInProcess, subject: Obj) -> None:
    await prepared(api)
    name = str(subject["name"])
    user, groups = ("chief", ()) if subject["kind"] == "User" else ("guest", (name,))
    assert (await api.call("POST", TRIGGERS, trigger(f"of-{name}"), user=user, groups=groups))[0] == 400
    await bound(api, "bank", name, "crossnamespace-subscriber", subject)
    made = await api.made(TRIGGERS, trigger(f"of-{name}"), user=user, groups=groups)
    for kind in ("Channel", "InMemoryChannel"):
        await api.made(SUBSCRIPTIONS, subscription(f"{name}-{kind.lower()}", kind), user=user, groups=groups)
    place, patch = f"{TRIGGERS}/{made['metadata']['name']}", {"spec": {"subscriber": {"uri": "http://mine"}}}
    status, refused = await api.call("PATCH", place, patch, user="dev", media="application/merge-patch+json")
    assert (status, REFUSED in refused["message"]) == (400, True), refused
    labelled = {"metadata": {"labels": {"seen": "yes"}}}
    assert (await api.call("PATCH", place, labelled, user="dev", media="application/merge-patch+json"))[0] == 200


async def test_the_role_for_one_broker_is_no_right_to_another(api: ApiInProcess) -> None:
    await prepared(api)
    await api.made(
        f"{RBAC}/namespaces/bank/roles",
        {
            "metadata": {"name": "refunds-only"},
            "rules": [
                {
                    "apiGroups": ["eventing.knative.dev"],
                    "resources": ["brokers"],
                    "resourceNames": ["refunds"],
                    "verbs": ["knsubscribe"],
                }
            ],
        },
    )
    binding = {
        "metadata": {"name": "refunds-only"},
        "roleRef": {"kind": "Role", "name": "refunds-only"},
        "subjects": [{"kind": "User", "name": "dev"}],
    }
    await api.made(f"{RBAC}/namespaces/bank/rolebindings", binding)
    assert (await api.call("POST", TRIGGERS, trigger("t"), user="dev"))[0] == 400
    refunds = trigger("of-refunds")
    refunds["spec"]["brokerRef"]["name"] = "refunds"
    await api.made(TRIGGERS, refunds, user="dev")
