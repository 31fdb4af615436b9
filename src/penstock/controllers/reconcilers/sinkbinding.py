"""The SinkBinding controller: adds the sink, the trust bundles and a token to the Pod templates of its subjects, and
removes them when the SinkBinding is deleted.

While the sink cannot be resolved, subjects keep what they have, so that their Pods are not restarted twice.

`BundleCopies` copies the trust bundles into the namespaces of SinkBindings, since Pods cannot mount ConfigMaps of
another namespace. Every SinkBinding of a namespace owns the copies, so that they are deleted with the last one.
`TokenSecrets` keeps a Secret with a token for each SinkBinding, which the Pods mount, as in Knative.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import OIDC_LABEL, identity_of
from penstock.controllers.reconcilers.configuration import features_of
from penstock.controllers.reconcilers.destinations import resolve
from penstock.controllers.reconcilers.parts import PartFailed, part_request
from penstock.controllers.tracker import Observer
from penstock.kube.errors import Conflict, Forbidden, KubeError, NotFound, Unavailable
from penstock.kube.kinds import CONFIG_MAP, JOB, SECRET, SINK_BINDING, Key, Kind, Obj, key_of
from penstock.oidc.names import child_name
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy import SenderIdentity
from penstock.resources.metadata import controller_of, controller_reference
from penstock.resources.sinkbinding import (
    FINALIZER,
    BindingObservation,
    BindingProblem,
    Environment,
    SinkBinding,
    Subject,
    SubjectCredentials,
    bound,
    bundles_in,
    environment_of,
    status_of,
    token_in,
    unbound,
)
from penstock.resources.trust_bundles import brought_up_to_date, copies_of, is_bundle, is_copy, is_owned_by

if TYPE_CHECKING:
    from penstock.oidc.tokens import Issued


RENEWED_SECONDS = 720.0
"""A token is renewed when no more than this is left of its hour, or two resyncs, if they take longer."""
TOKEN_KEY = "token"  # noqa: S105  # the key in the Secret, not a token

RequestToken = Callable[[str, str, str], Awaitable["Issued"]]
"""Requests a new token of a ServiceAccount, by its namespace, its name and the audience. Raises NoToken."""


class BundleCopies:
    """The trust bundles of every namespace, as SinkBindings need them."""

    def __init__(
        self, context: ReconcilerContext, enqueue: Callable[[Observer], None], trusted: Callable[[], str]
    ) -> None:
        """`trusted` are the certificates of all bundles, in PEM."""
        self._context, self._enqueue, self._trusted = context, enqueue, trusted
        self._bundles: dict[str, dict[str, Obj]] = defaultdict(dict)
        """By namespace and name; users may have some of their own."""
        context.tracker.informer(CONFIG_MAP).listen(self._announce)

    async def ensure(self, binding: Obj) -> tuple[list[str], str | None]:
        """Creates the copies for the SinkBinding. Returns the names of the bundles that Pods of its namespace should
        mount, and why a copy could not be created."""
        namespace, problem = binding["metadata"]["namespace"], None
        mounted = {name for name, one in self._bundles[namespace].items() if not is_copy(one)}
        for wanted in self._wanted(namespace):
            try:
                await self._ensure(wanted, binding)
                mounted.add(wanted["metadata"]["name"])
            except PartFailed as error:
                problem = str(error)
        return sorted(mounted), problem

    async def remove_others(self, binding: Obj) -> None:
        """Deletes the SinkBinding's copies of bundles that no longer exist."""
        namespace = binding["metadata"]["namespace"]
        wanted = {one["metadata"]["name"] for one in self._wanted(namespace)}
        for name, one in list(self._bundles[namespace].items()):
            if is_copy(one) and is_owned_by(one, binding) and name not in wanted:
                with contextlib.suppress(NotFound):
                    await self._context.api.delete(CONFIG_MAP, key_of(one))

    def _wanted(self, namespace: str) -> list[Obj]:
        if namespace == SYSTEM_NAMESPACE:  # the bundles themselves are there
            return []
        return copies_of(self._bundles[SYSTEM_NAMESPACE].values(), self._trusted(), namespace)

    async def _ensure(self, wanted: Obj, binding: Obj) -> None:
        key = key_of(wanted)
        held = self._context.tracker.informer(CONFIG_MAP).get(key)
        if held is not None and not is_copy(held):
            raise PartFailed(f'There is an existing ConfigMap "{key.name}" that we do not own.')
        made = brought_up_to_date(held, wanted, binding)
        if held is None:
            await part_request(self._context.create(CONFIG_MAP, made))
        elif made is not held:
            await part_request(self._context.write_spec(CONFIG_MAP, made))

    def _announce(self, key: Key, obj: Obj | None) -> None:
        """Has the SinkBindings reconciled that use a changed bundle: all, or those of its namespace."""
        before = self._bundles[key.namespace].pop(key.name, None)
        if obj is not None and is_bundle(obj):
            self._bundles[key.namespace][key.name] = obj
        elif before is None:
            return
        for one in self._context.tracker.informer(SINK_BINDING).all():
            if key.namespace in (SYSTEM_NAMESPACE, key_of(one).namespace):
                self._enqueue((SINK_BINDING.kind, key_of(one)))


class TokenSecrets:
    """The Secrets with the tokens of SinkBindings, renewed in time."""

    def __init__(self, context: ReconcilerContext, request_token: RequestToken) -> None:
        self._context, self._request_token = context, request_token

    async def ensure(self, me: Observer, obj: Obj, sink: ResolvedAddress | Unresolved) -> SubjectCredentials:
        """The ServiceAccount of the SinkBinding's subjects, and the Secret with its token."""
        status = obj.get("status") or {}
        held = str(status.get("oidcTokenSecretName") or "")
        if isinstance(sink, Unresolved):
            # Subjects keep the token that they have.
            return SubjectCredentials(
                SenderIdentity(str((status.get("auth") or {}).get("serviceAccountName") or "")), held
            )
        enabled = features.enabled_by(features.OIDC, features_of(self._context, me))
        if not enabled or sink.audience is None:
            if held:
                await self._remove(Key(obj["metadata"]["namespace"], held), obj["metadata"]["uid"])
            return SubjectCredentials(needed=False) if enabled else SubjectCredentials(await self._identity(me, obj))
        identity = await self._identity(me, obj)
        if identity.problem:
            return SubjectCredentials(identity, held, "there is no ServiceAccount to issue a token for")
        return await self._ensure_secret(obj, identity, sink.audience)

    async def _identity(self, me: Observer, obj: Obj) -> SenderIdentity:
        return await identity_of(self._context, me, SINK_BINDING, obj)

    async def _ensure_secret(self, obj: Obj, identity: SenderIdentity, audience: str) -> SubjectCredentials:
        metadata = obj["metadata"]
        key = Key(metadata["namespace"], child_name(metadata["name"], "-oidc-token"))
        try:
            return await self._renewed(obj, key, identity, audience)
        except Forbidden as error:
            what = f"could not create or update OIDC token secret {key.namespace}/{key.name}"
            return SubjectCredentials(identity, "", f"{what}: {error}")

    async def _renewed(self, obj: Obj, key: Key, identity: SenderIdentity, audience: str) -> SubjectCredentials:
        from penstock.oidc.tokens import NoToken, remaining

        api, metadata = self._context.api, obj["metadata"]
        found = await api.read(SECRET, key)
        if found is not None and (controller_of(found) or {}).get("uid") != metadata["uid"]:
            return SubjectCredentials(identity, "", f"secret {key.name} not owned by SinkBinding {metadata['name']}")
        token = base64.b64decode(((found or {}).get("data") or {}).get(TOKEN_KEY) or "").decode(errors="replace")
        if remaining(token, audience, time.time()) > max(RENEWED_SECONDS, 2 * self._context.settings.resync_seconds):
            return SubjectCredentials(identity, key.name)
        try:
            issued = await self._request_token(key.namespace, identity.account, audience)
        except NoToken as error:
            # The Pods keep the volume: removing it would restart them, and they would have no token either.
            return SubjectCredentials(identity, "" if found is None else key.name, str(error))
        data = {TOKEN_KEY: base64.b64encode(issued.token.encode()).decode()}
        if found is None:
            await api.create(SECRET, secret_of(obj, key, data))
        else:
            await api.replace(SECRET, {**found, "data": data})
        return SubjectCredentials(identity, key.name)

    async def _remove(self, key: Key, owner: str) -> None:
        found = await self._context.api.read(SECRET, key)
        if found is None or (controller_of(found) or {}).get("uid") != owner:
            return
        with contextlib.suppress(NotFound):
            await self._context.api.delete(SECRET, key)


def secret_of(obj: Obj, key: Key, data: dict[str, str]) -> Obj:
    """The Secret of a SinkBinding. It is deleted with the SinkBinding."""
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


class SinkBindingReconciler:
    """SinkBindings of any kind of object with a Pod template."""

    kind = SINK_BINDING

    def __init__(
        self,
        context: ReconcilerContext,
        enqueue: Callable[[Observer], None],
        trusted: Callable[[], str],
        request_token: RequestToken,
    ) -> None:
        """`trusted` returns the certificates of all trust bundles, in PEM."""
        self._context, self._enqueue = context, enqueue
        self._bundles = BundleCopies(context, enqueue, trusted)
        self._tokens = TokenSecrets(context, request_token)
        self._watched: set[Kind] = set()

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            leaving = self._context.tracker.informer(SINK_BINDING).get(key)
            if leaving is not None and FINALIZER in (leaving["metadata"].get("finalizers") or []):
                await self._finish(key, leaving)
            return
        context, binding = self._context, SinkBinding.read(obj)
        if FINALIZER not in (obj["metadata"].get("finalizers") or []):
            finalizers = [*(obj["metadata"].get("finalizers") or []), FINALIZER]
            await context.write_spec(SINK_BINDING, {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}})
            obj = context.tracker.informer(SINK_BINDING).get(key) or obj
        sink = resolve(binding.sink, key.namespace, context.tracker.lookup((SINK_BINDING.kind, key)))
        subjects = self._subjects(key, binding.subject)
        problem = subjects if isinstance(subjects, BindingProblem) else None
        bundles, missing = await self._bundles.ensure(obj)
        credentials = await self._tokens.ensure((SINK_BINDING.kind, key), obj, sink)
        if not isinstance(subjects, BindingProblem) and isinstance(sink, ResolvedAddress):
            environment = environment_of(sink, binding.overrides)
            changes = [(one, _bound(one, environment, bundles, credentials.secret)) for one in subjects]
            problem = await self._write(changes)
        # Only after the subjects were changed: a Pod that starts before would wait for a volume that does not exist.
        await self._bundles.remove_others(obj)
        seen = BindingObservation(sink, problem, missing, credentials)
        await context.write_status(SINK_BINDING, obj, status_of(obj, seen, context.now()))

    async def _finish(self, key: Key, obj: Obj) -> None:
        """Unbinds the subjects, and removes the finalizer."""
        subjects = self._subjects(key, SinkBinding.read(obj).subject)
        if not isinstance(subjects, BindingProblem):
            await self._write([(one, unbound(one)) for one in subjects])
        finalizers = [one for one in obj["metadata"]["finalizers"] if one != FINALIZER]
        with contextlib.suppress(NotFound):
            changed = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
            await self._context.write_spec(SINK_BINDING, changed)

    def _subjects(self, key: Key, subject: Subject) -> list[Obj] | BindingProblem:
        """The objects to bind; the SinkBinding is enqueued when they change, and when others begin to match."""
        context, kind = self._context, Kind(subject.api_version, subject.kind)
        found = context.tracker.look((SINK_BINDING.kind, key), kind, Key(subject.namespace, subject.name))
        informer = context.tracker.informer(kind)
        if informer.unserved is not None:
            return BindingProblem("SubjectUnavailable", informer.unserved)
        if subject.name:
            missing = BindingProblem("SubjectMissing", context.tracker.why_missing(kind, subject.name))
            return missing if found is None or found["metadata"].get("deletionTimestamp") else [found]
        self._watch(kind)
        return [one for one in informer.all() if subject.has(one) and not one["metadata"].get("deletionTimestamp")]

    def _watch(self, kind: Kind) -> None:
        """Has the SinkBindings with a label selector reconciled when an object of the kind changes."""
        if kind in self._watched:
            return
        self._watched.add(kind)
        bindings = self._context.tracker.informer(SINK_BINDING)

        def announce(key: Key, _obj: Obj | None) -> None:
            for one in bindings.all():
                subject = SinkBinding.read(one).subject
                if not subject.name and (subject.namespace, subject.api_version, subject.kind) == (
                    key.namespace,
                    kind.api_version,
                    kind.kind,
                ):
                    self._enqueue((SINK_BINDING.kind, key_of(one)))

        self._context.tracker.informer(kind).listen(announce)

    async def _write(self, changes: list[tuple[Obj, Obj]]) -> BindingProblem | None:
        """Stores the changed ones; returns why one could not be stored."""
        for before, after in changes:
            if after is before:
                continue
            try:
                await self._context.write_spec(Kind(before["apiVersion"], before["kind"]), after)
            except NotFound:
                continue
            except (Unavailable, Conflict):
                raise
            except KubeError as error:
                return BindingProblem("BindingFailed", f"failed binding subject {before['metadata']['name']}: {error}")
        return None


def _bound(subject: Obj, environment: Environment, bundles: list[str], token: str) -> Obj:
    """The bound subject. The template of a Job is immutable, so a Job keeps the volumes that it was created with, and
    that is not a failure."""
    if (subject["apiVersion"], subject["kind"]) == JOB:
        bundles, token = bundles_in(subject), token_in(subject)
    return bound(subject, environment, bundles, token)
