"""ServiceAccounts of senders and EventPolicies of targets, for statuses and routes where OIDC is enabled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from penstock.contract.routes import Policy
from penstock.controllers.reconciler import ReconcilerContext, ReconcilerWorkers
from penstock.controllers.reconcilers.configuration import features_of
from penstock.controllers.tracker import Observer
from penstock.kube.errors import Conflict, KubeError, NotFound, Unavailable
from penstock.kube.kinds import (
    CHANNEL,
    EVENT_POLICY,
    PARALLEL,
    SEQUENCE,
    SERVICE_ACCOUNT_KIND,
    Key,
    Kind,
    Obj,
    key_of,
)
from penstock.oidc.names import account_of, audience_of
from penstock.resources import features
from penstock.resources.eventpolicy import NO_IDENTITY, OPEN, EventPolicy, SenderIdentity, TargetAccess
from penstock.resources.metadata import controller_of, controller_reference
from penstock.resources.parallel import ingress_name
from penstock.resources.sequence import part_name

OIDC_LABEL = "eventing.knative.dev/oidc"

_ENTRY_CHANNEL: Mapping[Kind, Callable[[str], str]] = {
    CHANNEL: lambda name: name,
    SEQUENCE: lambda name: part_name(name, 0),
    PARALLEL: ingress_name,
}
"""Kinds that accept events at a channel that they own, with the name of that channel."""


def account_name(context: ReconcilerContext, me: Observer, kind: Kind, name: str) -> str:
    """The ServiceAccount of the object of this name; empty where OIDC is disabled. `me` is enqueued when that
    changes."""
    enabled = features.enabled_by(features.OIDC, features_of(context, me))
    return account_of(kind.group, kind.kind, name) if enabled else ""


async def identity_of(context: ReconcilerContext, me: Observer, kind: Kind, obj: Obj) -> SenderIdentity:
    """The ServiceAccount with which the object sends, created if missing; deleted where OIDC is disabled."""
    metadata = obj["metadata"]
    account = account_of(kind.group, kind.kind, metadata["name"])
    key = Key(metadata["namespace"], account)
    if not features.enabled_by(features.OIDC, features_of(context, me)):
        if (obj.get("status") or {}).get("auth"):
            await _remove(context, me, key, metadata["uid"])
        return NO_IDENTITY
    found = context.tracker.look(me, SERVICE_ACCOUNT_KIND, key)
    if found is None:
        try:
            await context.create(SERVICE_ACCOUNT_KIND, service_account(kind, obj, account))
        except (Unavailable, Conflict):
            raise
        except KubeError as error:
            what = f"could not create OIDC service account {key.namespace}/{metadata['name']} for {kind.kind}"
            return SenderIdentity(account, f"{what}: {error}")
    elif (controller_of(found) or {}).get("uid") != metadata["uid"]:
        return SenderIdentity(account, f"service account {account} not owned by {kind.kind} {metadata['name']}")
    return SenderIdentity(account)


def service_account(kind: Kind, obj: Obj, account: str) -> Obj:
    """The ServiceAccount of an object, to be created. It is deleted with the object."""
    metadata = obj["metadata"]
    owner = controller_reference({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
    description = f'Service Account for OIDC Authentication for {kind.kind} "{metadata["name"]}"'
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": account,
            "namespace": metadata["namespace"],
            "labels": {OIDC_LABEL: "enabled"},
            "annotations": {"description": description},
            "ownerReferences": [{**owner, "blockOwnerDeletion": False}],
        },
    }


def access_of(context: ReconcilerContext, me: Observer, kind: Kind, obj: Obj) -> TargetAccess:
    """Who may send to the object."""
    data = features_of(context, me)
    if not features.enabled_by(features.OIDC, data):
        return OPEN
    metadata = obj["metadata"]
    audience = audience_of(kind.group, kind.kind, metadata["namespace"], metadata["name"])
    applying = [
        policy for policy in _policies(context, metadata["namespace"]) if _applies(context, me, policy, kind, obj)
    ]
    return TargetAccess(
        audience,
        features.authorization_mode(data),
        tuple(Policy(one.name, one.subjects if one.is_ready else (), one.filters) for one in applying),
        tuple(one.name for one in applying if not one.is_ready),
    )


def enqueue_on_policy_changes(context: ReconcilerContext, workers: ReconcilerWorkers, kinds: tuple[Kind, ...]) -> None:
    """Has the objects of these kinds reconciled when an EventPolicy of their namespace changes."""

    def changed(key: Key, _: Obj | None) -> None:
        for kind in kinds:
            for obj in context.tracker.informer(kind).all():
                if (found := key_of(obj)).namespace == key.namespace:
                    workers.enqueue((kind.queue, found))

    context.tracker.informer(EVENT_POLICY).listen(changed)


def _policies(context: ReconcilerContext, namespace: str) -> list[EventPolicy]:
    stored = (obj for obj in context.tracker.informer(EVENT_POLICY).all() if key_of(obj).namespace == namespace)
    return sorted((EventPolicy.read(obj) for obj in stored), key=lambda policy: policy.name)


def _applies(context: ReconcilerContext, me: Observer, policy: EventPolicy, kind: Kind, obj: Obj) -> bool:
    """Whether the policy applies to the object, or to the owner for which it accepts events: the backing channel of a
    Channel, or the first channel of a flow, must be protected like its owner."""
    metadata = obj["metadata"]
    if policy.applies_to(kind.group, kind.kind, metadata["name"], metadata.get("labels") or {}):
        return True
    owner = controller_of(obj)
    if owner is None:
        return False
    owner_kind, name = Kind(str(owner.get("apiVersion")), str(owner.get("kind"))), str(owner.get("name"))
    entry_channel = _ENTRY_CHANNEL.get(owner_kind)
    if entry_channel is None or metadata["name"] != entry_channel(name):
        return False
    found = context.tracker.look(me, owner_kind, Key(metadata["namespace"], name))
    return found is not None and _applies(context, me, policy, owner_kind, found)


async def _remove(context: ReconcilerContext, me: Observer, key: Key, owner: str) -> None:
    found = context.tracker.look(me, SERVICE_ACCOUNT_KIND, key)
    if found is None or (controller_of(found) or {}).get("uid") != owner:
        return
    with contextlib.suppress(NotFound):
        await context.api.delete(SERVICE_ACCOUNT_KIND, key)
