"""Identities and policies where OIDC is enabled: what statuses, ServiceAccounts and the records of targets say."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.routes import Access, Policy, Route, Target
from penstock.kube.kinds import (
    API_SERVER_SOURCE,
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    EVENT_POLICY,
    IN_MEMORY_CHANNEL,
    PING_SOURCE,
    SEQUENCE,
    SERVICE_ACCOUNT_KIND,
    SUBSCRIPTION,
    TRIGGER,
    Key,
    Kind,
    Obj,
)
from tests.unit.controllers.memory_plane import ControlPlane

ACCOUNT = "t-oidc-eventing.knative.dev-trigger"
SINK = {"uri": "http://sink", "audience": "sink"}
TILL = "system:serviceaccount:ns:till"


def named(name: str, namespace: str = "ns", **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, **body}


def switch(plane: ControlPlane, oidc: str = "enabled", mode: str = "allow-same-namespace") -> None:
    data = {"authentication-oidc": oidc, "default-authorization-mode": mode}
    plane.api.apply(CONFIG_MAP, named("config-features", "knative-eventing", data=data))


def policy(*senders: Obj, **spec: Any) -> Obj:
    return named("p", spec={"from": list(senders) or [{"sub": TILL}], **spec})


def to(kind: Kind, name: str) -> list[Obj]:
    return [{"ref": {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}}]


def access(plane: ControlPlane, name: str = "b") -> Access | None:
    [target] = [one for one in plane.records().values() if isinstance(one, Target) and one.name == name]
    return target.access


def route(plane: ControlPlane) -> Route:
    [found] = [one for one in plane.records().values() if isinstance(one, Route)]
    return found


def status(plane: ControlPlane, kind: Kind, name: str) -> Obj:
    return dict((plane.api.get(kind, "ns", name) or {}).get("status") or {})


@pytest.fixture
async def guarded(plane: ControlPlane) -> ControlPlane:
    """A control plane with OIDC, a Broker and a Trigger."""
    switch(plane)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, named("t", spec={"broker": "b", "subscriber": SINK}))
    await plane.until(lambda: plane.ready(TRIGGER, "t") and access(plane) is not None)
    return plane


async def test_a_broker_has_an_audience_and_says_who_may_send(guarded: ControlPlane) -> None:
    audience = "eventing.knative.dev/broker/ns/b"
    assert status(guarded, BROKER, "b")["address"]["audience"] == audience
    assert access(guarded) == Access(audience)
    told = guarded.condition(BROKER, "b", "EventPoliciesReady")
    assert (told["status"], told["reason"]) == ("True", "DefaultAuthorizationMode")
    assert told["message"] == 'Default authz mode is "Allow-Same-Namespace"'
    switch(guarded, mode="Deny-All")
    await guarded.until(lambda: access(guarded) == Access(audience, default_mode="deny-all"))


async def test_a_trigger_sends_as_a_service_account_of_its_own(guarded: ControlPlane) -> None:
    assert status(guarded, TRIGGER, "t")["auth"] == {"serviceAccountName": ACCOUNT}
    assert route(guarded).account == ACCOUNT
    account = guarded.api.get(SERVICE_ACCOUNT_KIND, "ns", ACCOUNT)
    assert account is not None
    [owner] = account["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "Trigger",
        "t",
        True,
        False,
    )
    assert account["metadata"]["labels"] == {"eventing.knative.dev/oidc": "enabled"}
    made = guarded.condition(TRIGGER, "t", "OIDCIdentityCreated")
    assert (made["status"], made.get("reason", "")) == ("True", "")


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (PING_SOURCE, {"schedule": "0 0 1 1 *"}),
        (API_SERVER_SOURCE, {"serviceAccountName": "watcher", "resources": [{"apiVersion": "v1", "kind": "Pod"}]}),
    ],
)
async def test_a_source_sends_as_a_service_account_of_its_own(plane: ControlPlane, kind: Kind, spec: Obj) -> None:
    switch(plane)
    account = f"s-oidc-sources.knative.dev-{kind.kind.lower()}"
    plane.api.apply(kind, named("s", spec={**spec, "sink": SINK}))
    await plane.until(lambda: status(plane, kind, "s").get("auth") == {"serviceAccountName": account})
    assert plane.api.get(SERVICE_ACCOUNT_KIND, "ns", account) is not None
    assert plane.condition(kind, "s", "OIDCIdentityCreated")["status"] == "True"
    assert status(plane, kind, "s")["sinkAudience"] == "sink"
    switch(plane, "disabled")
    await plane.until(lambda: "auth" not in status(plane, kind, "s"))
    await plane.until(lambda: plane.api.get(SERVICE_ACCOUNT_KIND, "ns", account) is None)


async def test_a_service_account_that_somebody_deletes_is_made_again(guarded: ControlPlane) -> None:
    before = guarded.api.get(SERVICE_ACCOUNT_KIND, "ns", ACCOUNT)
    guarded.api.remove(SERVICE_ACCOUNT_KIND, Key("ns", ACCOUNT))
    await guarded.until(lambda: guarded.api.get(SERVICE_ACCOUNT_KIND, "ns", ACCOUNT))
    assert guarded.api.get(SERVICE_ACCOUNT_KIND, "ns", ACCOUNT) != before


async def test_a_service_account_of_somebody_else_is_not_used(plane: ControlPlane) -> None:
    switch(plane)
    plane.api.apply(SERVICE_ACCOUNT_KIND, named(ACCOUNT))
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, named("t", spec={"broker": "b", "subscriber": SINK}))
    await plane.until(lambda: plane.condition(TRIGGER, "t", "OIDCIdentityCreated").get("status") == "False")
    told = plane.condition(TRIGGER, "t", "OIDCIdentityCreated")
    assert told["reason"] == "Unable to resolve service account for OIDC authentication"
    assert told["message"] == f"service account {ACCOUNT} not owned by Trigger t"


async def test_disabled_again_nothing_is_left_of_it(guarded: ControlPlane) -> None:
    switch(guarded, "disabled")
    await guarded.until(lambda: access(guarded) is None and not route(guarded).account)
    await guarded.until(lambda: guarded.api.get(SERVICE_ACCOUNT_KIND, "ns", ACCOUNT) is None)
    await guarded.until(lambda: "auth" not in status(guarded, TRIGGER, "t"))
    assert "audience" not in status(guarded, BROKER, "b")["address"]
    assert guarded.condition(BROKER, "b", "EventPoliciesReady")["reason"] == "OIDCDisabled"


async def test_a_policy_reaches_the_targets_that_it_is_for(guarded: ControlPlane) -> None:
    guarded.api.apply(BROKER, named("other"))
    guarded.api.apply(EVENT_POLICY, policy(to=to(BROKER, "b"), filters=[{"exact": {"type": "t"}}]))
    wanted = Policy("p", (TILL,), [{"exact": {"type": "t"}}])
    await guarded.until(lambda: (access(guarded) or Access()).policies == (wanted,))
    await guarded.until(lambda: guarded.ready(EVENT_POLICY, "p") and guarded.ready(BROKER, "other"))
    assert status(guarded, EVENT_POLICY, "p")["from"] == [TILL]
    applied = [{"name": "p", "apiVersion": "eventing.knative.dev/v1alpha1"}]
    await guarded.until(lambda: status(guarded, BROKER, "b").get("policies") == applied)
    assert "policies" not in status(guarded, BROKER, "other")
    assert (access(guarded, "other") or Access("?")).policies == ()
    guarded.api.remove(EVENT_POLICY, Key("ns", "p"))
    await guarded.until(lambda: (access(guarded) or Access("?")).policies == ())


async def test_a_policy_without_targets_is_for_all_of_its_namespace_and_no_other(guarded: ControlPlane) -> None:
    guarded.api.apply(BROKER, named("far", "elsewhere"))
    guarded.api.apply(EVENT_POLICY, policy())
    await guarded.until(lambda: (access(guarded) or Access()).policies)
    await guarded.until(lambda: guarded.ready(BROKER, "far", "elsewhere"))
    assert (access(guarded, "far") or Access("?")).policies == ()


async def test_a_policy_for_a_trigger_means_its_service_account(guarded: ControlPlane) -> None:
    source = {"apiVersion": TRIGGER.api_version, "kind": "Trigger", "name": "t"}
    guarded.api.apply(EVENT_POLICY, policy({"ref": source}))
    subject = f"system:serviceaccount:ns:{ACCOUNT}"
    await guarded.until(lambda: (access(guarded) or Access()).policies == (Policy("p", (subject,)),))


async def test_a_policy_that_is_not_ready_lets_nobody_in(guarded: ControlPlane) -> None:
    missing = {"apiVersion": TRIGGER.api_version, "kind": "Trigger", "name": "gone"}
    guarded.api.apply(EVENT_POLICY, policy({"ref": missing}))
    await guarded.until(lambda: (access(guarded) or Access()).policies == (Policy("p"),))
    await guarded.until(lambda: guarded.condition(BROKER, "b", "EventPoliciesReady").get("status") == "False")
    told = guarded.condition(BROKER, "b")
    assert (told["reason"], told["message"]) == ("EventPoliciesNotReady", "event policies p are not ready")
    told = guarded.condition(EVENT_POLICY, "p", "SubjectsResolved")
    assert (told["status"], told["reason"]) == ("False", "SubjectsNotResolved")
    assert told["message"].endswith('triggers.eventing.knative.dev "gone" not found')
    guarded.api.apply(TRIGGER, named("gone", spec={"broker": "b", "subscriber": SINK}))
    await guarded.until(lambda: guarded.ready(BROKER, "b") and guarded.ready(EVENT_POLICY, "p"))


async def test_the_channel_behind_a_channel_is_guarded_like_it(plane: ControlPlane) -> None:
    switch(plane)
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(EVENT_POLICY, policy(to=to(CHANNEL, "c")))
    plane.api.apply(SUBSCRIPTION, named("s", spec={"channel": to(CHANNEL, "c")[0]["ref"], "subscriber": SINK}))
    await plane.until(lambda: plane.ready(CHANNEL, "c") and plane.ready(SUBSCRIPTION, "s"))
    audience = "messaging.knative.dev/inmemorychannel/ns/c"
    await plane.until(lambda: access(plane, "c") == Access(audience, (Policy("p", (TILL,)),)))
    applied = [{"name": "p", "apiVersion": "eventing.knative.dev/v1alpha1"}]
    await plane.until(lambda: status(plane, CHANNEL, "c").get("policies") == applied)
    assert status(plane, IN_MEMORY_CHANNEL, "c")["policies"] == applied
    assert status(plane, CHANNEL, "c")["address"]["audience"] == audience
    account = "s-oidc-messaging.knative.dev-subscription"
    assert status(plane, SUBSCRIPTION, "s")["auth"] == {"serviceAccountName": account}
    assert route(plane).account == account


async def test_without_oidc_nobody_asks_for_service_accounts(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, named("t", spec={"broker": "b", "subscriber": SINK}))
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    await plane.settled()
    assert SERVICE_ACCOUNT_KIND not in plane.context.tracker._informers  # nothing else tells of it
    assert route(plane).account == ""
    assert plane.condition(TRIGGER, "t", "OIDCIdentityCreated")["reason"] == "authentication-oidc feature disabled"


async def test_a_sequence_is_guarded_where_its_events_come_in(plane: ControlPlane) -> None:
    switch(plane)
    template = {"apiVersion": IN_MEMORY_CHANNEL.api_version, "kind": IN_MEMORY_CHANNEL.kind}
    steps = [SINK, SINK]
    plane.api.apply(SEQUENCE, named("q", spec={"channelTemplate": template, "steps": steps}))
    plane.api.apply(EVENT_POLICY, policy(to=to(SEQUENCE, "q")))
    await plane.until(lambda: plane.ready(SEQUENCE, "q") and plane.ready(EVENT_POLICY, "p"))
    first, second = "q-kn-sequence-0", "q-kn-sequence-1"
    await plane.until(lambda: (access(plane, first) or Access()).policies == (Policy("p", (TILL,)),))
    assert (access(plane, second) or Access("?")).policies == ()
    await plane.until(lambda: status(plane, SEQUENCE, "q").get("policies"))
    told = status(plane, SEQUENCE, "q")
    assert told["address"]["audience"] == f"messaging.knative.dev/inmemorychannel/ns/{first}"
    accounts = [f"{name}-oidc-messaging.knative.dev-subscription" for name in (first, second)]
    assert told["auth"] == {"serviceAccountNames": accounts}
