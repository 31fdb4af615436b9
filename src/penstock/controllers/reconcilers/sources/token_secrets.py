"""Tokens for the programs that SinkBindings bind: a Secret beside each, which their Pods mount, renewed in time.

The programs run elsewhere and cannot be handed what is in memory here; so it is with Knative.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import OIDC_LABEL, identity_of
from penstock.controllers.reconcilers.configuration import features_of
from penstock.controllers.tracker import Observer
from penstock.kube.errors import Forbidden, NotFound
from penstock.kube.kinds import SECRET, SINK_BINDING, Key, Obj
from penstock.oidc.names import child_name
from penstock.resources import features
from penstock.resources.destinations.resolution import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy import SenderIdentity
from penstock.resources.metadata import controller_of, controller_reference
from penstock.resources.sinkbinding import SubjectCredentials

if TYPE_CHECKING:
    from penstock.oidc.tokens import Issued

RENEWED_SECONDS = 720.0
"""A token is renewed when no more of its hour is left than this, or than passes until its SinkBinding is looked at
twice."""
FILE = "token"

Ask = Callable[[str, str, str], Awaitable["Issued"]]
"""A new token of a ServiceAccount, by its namespace, its name and the audience. Raises NoToken."""


class TokenSecrets:
    """The Secrets of SinkBindings."""

    def __init__(self, world: ReconcilerContext, ask: Ask) -> None:
        self._world, self._ask = world, ask

    async def ensure(self, me: Observer, obj: Obj, sink: ResolvedAddress | Unresolved) -> SubjectCredentials:
        """As whom the SinkBinding's subjects send, and where their token is."""
        status = obj.get("status") or {}
        held = str(status.get("oidcTokenSecretName") or "")
        if isinstance(sink, Unresolved):
            # What is bound goes on with what it has.
            return SubjectCredentials(
                SenderIdentity(str((status.get("auth") or {}).get("serviceAccountName") or "")), held
            )
        enabled = features.enabled_by(features.OIDC, features_of(self._world, me))
        if not enabled or sink.audience is None:
            if held:
                await self._remove(Key(obj["metadata"]["namespace"], held), obj["metadata"]["uid"])
            return SubjectCredentials(needed=False) if enabled else SubjectCredentials(await self._identity(me, obj))
        identity = await self._identity(me, obj)
        if identity.problem:
            return SubjectCredentials(identity, held, "there is no ServiceAccount to have a token of")
        return await self._kept(obj, identity, sink.audience)

    async def _identity(self, me: Observer, obj: Obj) -> SenderIdentity:
        return await identity_of(self._world, me, SINK_BINDING, obj)

    async def _kept(self, obj: Obj, identity: SenderIdentity, audience: str) -> SubjectCredentials:
        metadata = obj["metadata"]
        key = Key(metadata["namespace"], child_name(metadata["name"], "-oidc-token"))
        try:
            return await self._renewed(obj, key, identity, audience)
        except Forbidden as error:
            what = f"could not create or update OIDC token secret {key.namespace}/{key.name}"
            return SubjectCredentials(identity, "", f"{what}: {error}")

    async def _renewed(self, obj: Obj, key: Key, identity: SenderIdentity, audience: str) -> SubjectCredentials:
        from penstock.oidc.tokens import NoToken, remaining

        api, metadata = self._world.api, obj["metadata"]
        found = await api.read(SECRET, key)
        if found is not None and (controller_of(found) or {}).get("uid") != metadata["uid"]:
            return SubjectCredentials(identity, "", f"secret {key.name} not owned by SinkBinding {metadata['name']}")
        token = base64.b64decode(((found or {}).get("data") or {}).get(FILE) or "").decode(errors="replace")
        if remaining(token, audience, time.time()) > max(RENEWED_SECONDS, 2 * self._world.settings.resync_seconds):
            return SubjectCredentials(identity, key.name)
        try:
            issued = await self._ask(key.namespace, identity.account, audience)
        except NoToken as error:
            # The Pods keep the volume: taking it away would restart them, and they would have no token either.
            return SubjectCredentials(identity, "" if found is None else key.name, str(error))
        data = {FILE: base64.b64encode(issued.token.encode()).decode()}
        if found is None:
            await api.create(SECRET, secret_of(obj, key, data))
        else:
            await api.replace(SECRET, {**found, "data": data})
        return SubjectCredentials(identity, key.name)

    async def _remove(self, key: Key, owner: str) -> None:
        found = await self._world.api.read(SECRET, key)
        if found is None or (controller_of(found) or {}).get("uid") != owner:
            return
        with contextlib.suppress(NotFound):
            await self._world.api.delete(SECRET, key)


def secret_of(obj: Obj, key: Key, data: dict[str, str]) -> Obj:
    """The Secret of a SinkBinding. It goes when the SinkBinding goes."""
    kind = {"apiVersion": SINK_BINDING.api_version, "kind": SINK_BINDING.kind}
    owner = controller_reference({**kind, "metadata": obj["metadata"]})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {OIDC_LABEL: "enabled"},
            "ownerReferences": [{**owner, "blockOwnerDeletion": False}],
        },
        "type": "Opaque",
        "data": data,
    }
