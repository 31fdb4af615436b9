"""The ApiServerSource controller: resolves the sink and the namespaces, checks the permissions of the ServiceAccount,
and has `WatchRunner` watch as that account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import identity_of
from penstock.controllers.reconcilers.destinations import resolve
from penstock.controllers.reconcilers.eventtype import DescribedEvents
from penstock.controllers.tracker import Observer
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import Everything, Predicate
from penstock.kube.client import AsyncClient, Change, Listing
from penstock.kube.errors import NotFound
from penstock.kube.kinds import API_SERVER_SOURCE, NAMESPACE, Key, Kind, Obj, key_of
from penstock.resources.apiserversource import ApiServerObservation, ApiServerSource, status_of
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.metadata import selector_matches
from penstock.sources.deliveries import Sinks
from penstock.sources.watch_plan import WatchedObjects, WatchPlan
from penstock.sources.watches import WatchRunner

VERBS = ("get", "list", "watch")


class InsufficientPermissions(Exception):  # the status says so; raised to be retried
    """The ServiceAccount may not watch what it should; roles may be bound to it later."""


class ApiServerSourceReconciler:
    """ApiServerSources, and the watches of all of them."""

    kind = API_SERVER_SOURCE

    def __init__(self, context: ReconcilerContext, enqueue: Callable[[Observer], None], sinks: Sinks) -> None:
        self._context, self._enqueue = context, enqueue
        self._apis = AccountApis(context.api)
        self._runner = WatchRunner(self._apis, sinks.send, self._changed)
        self._described = DescribedEvents(context, "apiserversource")
        self._keys: dict[str, Key] = {}
        self._uids: dict[Key, str] = {}
        self._follows_namespaces = False

    async def run(self) -> None:
        """Watches until cancelled."""
        try:
            await self._runner.run()
        finally:
            await self._apis.close()

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        self._follow(key, None if obj is None else str(obj["metadata"]["uid"]))
        if obj is None:
            return
        context, source = self._context, ApiServerSource.read(obj)
        me = (API_SERVER_SOURCE.kind, key)
        sink = resolve(source.sink, key.namespace, context.tracker.lookup(me))
        identity = await identity_of(context, me, API_SERVER_SOURCE, obj)
        namespaces, missing = self._namespaces(me, source), None
        uid, predicate = source.identity.uid, _predicate(source)
        if isinstance(sink, ResolvedAddress):
            missing = None if source.skips_permissions else await self._missing(source, namespaces)
            if missing is None:
                addressed = replace(sink, account=identity.account)
                self._runner.put(WatchPlan(source, namespaces, predicate, addressed, context.api.url))
            else:
                self._runner.remove(uid)
        seen = ApiServerObservation(
            context.api.url,
            sink,
            namespaces,
            missing,
            self._runner.watching(uid),
            self._runner.problem(uid),
            self._runner.trouble(uid),
            identity,
        )
        status = status_of(obj, seen, context.now())
        await context.write_status(API_SERVER_SOURCE, obj, status)
        await self._described.ensure(me, obj, status, context.api.url)
        if missing is not None:
            raise InsufficientPermissions(f"insufficient permissions: {missing}")

    def _namespaces(self, me: Observer, source: ApiServerSource) -> tuple[str, ...]:
        if source.namespace_selector is None:
            return (source.identity.namespace,)
        self._context.tracker.look(me, NAMESPACE, Key("", ""))
        self._follow_namespaces()
        found = self._context.tracker.informer(NAMESPACE).all()
        labels = {str(one["metadata"]["name"]): one["metadata"].get("labels") for one in found}
        return tuple(sorted(name for name in labels if selector_matches(source.namespace_selector, labels[name])))

    def _follow_namespaces(self) -> None:
        """Has the sources with a namespace selector reconciled when a namespace changes."""
        if self._follows_namespaces:
            return
        self._follows_namespaces = True
        sources = self._context.tracker.informer(API_SERVER_SOURCE)

        def announce(_key: Key, _obj: Obj | None) -> None:
            for one in sources.all():
                if (one.get("spec") or {}).get("namespaceSelector") is not None:
                    self._enqueue((API_SERVER_SOURCE.kind, key_of(one)))

        self._context.tracker.informer(NAMESPACE).listen(announce)

    async def _missing(self, source: ApiServerSource, namespaces: tuple[str, ...]) -> str | None:
        """Which permissions the ServiceAccount lacks, in the words of Knative."""
        lacking = []
        for one in source.resources:
            kind = Kind(one.api_version, one.kind)
            for namespace in namespaces:
                asked = {"namespace": namespace, "group": kind.group, "resource": kind.plural}
                verbs = [v for v in VERBS if not await self._may(source.user, {**asked, "verb": v})]
                if verbs:
                    what = f'resource "{kind.plural}" in API group "{kind.group}" in Namespace "{namespace}"'
                    lacking.append(f"{', '.join(verbs)} {what}")
        return f"User {source.user} cannot {', '.join(lacking)}" if lacking else None

    async def _may(self, user: str, attributes: Obj) -> bool:
        return await self._context.api.is_allowed({"user": user, "resourceAttributes": attributes})

    def _changed(self, uid: str) -> None:
        if uid in self._keys:
            self._enqueue((API_SERVER_SOURCE.kind, self._keys[uid]))

    def _follow(self, key: Key, uid: str | None) -> None:
        """An object that was created again under the same name is another source."""
        former = self._uids.get(key)
        if former is not None and former != uid:
            self._runner.remove(former)
            del self._uids[key], self._keys[former]
        if uid is not None:
            self._uids[key], self._keys[uid] = uid, key


def _predicate(source: ApiServerSource) -> Predicate:
    """Invalid filters, stored without admission, match everything, as in Knative."""
    try:
        return parse(None, source.filters)
    except InvalidFilter:
        return Everything()


class AccountApis:
    """The API as ServiceAccounts see it: a client that impersonates each of them; see `ObjectApi`."""

    def __init__(self, api: AsyncClient) -> None:
        self._api = api
        self._apis: dict[str, AsyncClient] = {}
        self._cluster_wide: set[Kind] = set()
        """Kinds whose objects are in no namespace."""

    async def close(self) -> None:
        """Ends every connection."""
        for api in self._apis.values():
            await api.close()
        self._apis.clear()

    async def listing(self, user: str, watched: WatchedObjects) -> Listing:
        """The objects, and the version to watch from."""
        api, kind, namespace = self._of(user), _kind(watched), self._namespace(watched)
        try:
            return await api.list(kind, namespace)
        except NotFound:
            if namespace is None:
                raise
        # A cluster-scoped kind is not found below a namespace.
        found = await api.list(kind)
        self._cluster_wide.add(kind)
        return found

    def changes(
        self, user: str, watched: WatchedObjects, version: str
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """Changes after `version`."""
        return self._of(user).watch(_kind(watched), version, self._namespace(watched))

    def plural(self, watched: WatchedObjects) -> str:
        """The name of the collection."""
        return _kind(watched).plural

    def _of(self, user: str) -> AsyncClient:
        if user not in self._apis:
            self._apis[user] = self._api.acting_as(user)
        return self._apis[user]

    def _namespace(self, watched: WatchedObjects) -> str | None:
        return None if _kind(watched) in self._cluster_wide else watched.namespace


def _kind(watched: WatchedObjects) -> Kind:
    return Kind(watched.kind.api_version, watched.kind.kind)
