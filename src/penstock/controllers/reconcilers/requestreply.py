"""The RequestReply controller of the embedded control plane: the Trigger for replies, and the keys.

`sinks/request_reply.py` accepts the requests.
"""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.controllers.routes.route_records import REQUEST_REPLY_HOST
from penstock.kube.kinds import BROKER, REQUEST_REPLY, SECRET, Key, Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.requestreply import (
    KEY_BYTES,
    KEYS_SECRET,
    RequestReply,
    RequestReplyObservation,
    status_of,
    with_key,
    without_keys,
)

Keys = MutableMapping[Key, list[bytes]]
"""The keys of each RequestReply, the newest first."""


class RequestReplyReconciler:
    """RequestReplies."""

    kind = REQUEST_REPLY

    def __init__(self, context: ReconcilerContext, keys: Keys) -> None:
        self._context, self._keys = context, keys

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (REQUEST_REPLY.kind, key)
        if obj is None:
            if self._keys.pop(key, None) is not None:
                await self._forget(key)
            return
        wanted = RequestReply.read(obj)
        self._keys[key] = await self._ensured(wanted)
        url = f"http://{REQUEST_REPLY_HOST}/{key.namespace}/{key.name}"
        trigger, failure = None, None
        try:
            trigger = await Parts(context, me, obj).own(wanted.trigger(f"{url}/reply"))
        except PartFailed as failed:
            failure = str(failed)
        broker = context.tracker.look(me, BROKER, Key(key.namespace, wanted.broker))
        missing = "" if broker is not None else context.tracker.why_missing(BROKER, wanted.broker)
        seen = RequestReplyObservation(url, broker, missing, trigger, failure)
        await context.write_status(REQUEST_REPLY, obj, status_of(obj, seen, context.now()))

    async def _ensured(self, wanted: RequestReply) -> list[bytes]:
        """Its keys; one is created where it has none."""
        secret = await self._context.api.read(SECRET, Key(SYSTEM_NAMESPACE, KEYS_SECRET))
        found = wanted.keys(secret)
        if found:
            return found
        changed = with_key(secret, SYSTEM_NAMESPACE, f"{wanted.key_prefix}key-0", secrets.token_bytes(KEY_BYTES))
        write = self._context.api.create if secret is None else self._context.api.replace
        return wanted.keys(await write(SECRET, changed))

    async def _forget(self, key: Key) -> None:
        secret = await self._context.api.read(SECRET, Key(SYSTEM_NAMESPACE, KEYS_SECRET))
        if secret is not None:
            changed = without_keys(secret, f"{key.namespace}.{key.name}.")
            if changed["data"] != (secret.get("data") or {}):
                await self._context.api.replace(SECRET, changed)
