"""The API server as a component: composes the parts, listens, and stops in order.

The generic server is connected to the kinds of this project here: their definitions, their admission plugins, and the
ConfigMaps that configure those.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

from starlette.types import ASGIApp

from penstock.apiserver.access import identity, kubeconfig, policy
from penstock.apiserver.access.authentication import Authenticator
from penstock.apiserver.access.identity import Revocations
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.signing_keys import load_signer, rotate_keys_forever
from penstock.apiserver.cluster import bootstrap, node
from penstock.apiserver.cluster.aggregation import Aggregation
from penstock.apiserver.cluster.eventing_admission import (
    SINK_BINDINGS,
    EventingAdmission,
    FeaturesAdmission,
    SinkBindingAdmission,
)
from penstock.apiserver.cluster.rbac_admission import RbacAdmission
from penstock.apiserver.documents import decode
from penstock.apiserver.http.app import VERSION, ApiApp
from penstock.apiserver.http.audit import AuditFile, AuditMiddleware
from penstock.apiserver.http.connections import BoundedConnection
from penstock.apiserver.http.read_endpoints import ReadEndpoints
from penstock.apiserver.http.request_limits import RequestLimits
from penstock.apiserver.http.watching import Watches
from penstock.apiserver.http.write_endpoints import WriteEndpoints
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.store.encryption import WrongKey, load_keyring, reencrypt
from penstock.apiserver.store.expiry import expire_forever
from penstock.apiserver.store.storage import Change, Store
from penstock.apiserver.verbs.admission import AdmissionChain
from penstock.apiserver.verbs.history import WatchHistory
from penstock.apiserver.verbs.namespace_finalizer import NamespaceCleaner
from penstock.apiserver.verbs.writing import Verbs
from penstock.kube.kinds import Obj
from penstock.resources import registry as project_kinds
from penstock.runtime.hosts import from_here, reachable
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from penstock.web.server import HttpServer, listen
from penstock.web.tls_context import RenewedContext
from penstock.web.tls_server import server_names

SWITCH_SECONDS = 0.0005
"""Python's switch interval: how long the writer's thread waits for a busy event loop, at every SQLite statement."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until stopped."""
    # First, so that a port in use is reported before anything is written.
    listening = listen(lifecycle, "the API", settings.host, settings.api_port, "api_port")
    with contextlib.closing(listening) as listener:
        await _run(settings, lifecycle, listener)


async def _run(settings: Settings, lifecycle: Lifecycle, listener: socket.socket) -> None:
    _allow_many_connections()
    sys.setswitchinterval(SWITCH_SECONDS)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    pki = settings.data_dir / "pki"
    kubeconfig.ensure_certificate(pki, *server_names(settings))
    _write_kubeconfigs(settings, pki, identity.load_component_tokens(pki / "tokens.json")[1])
    owner, watches = TaskScope(), Watches()
    try:
        async with assembled(settings, owner, watches) as app:
            await first(_serve(app, settings, listener, lifecycle, watches), owner.failed())
    except WrongKey as error:
        lifecycle.fail(str(error))
        raise


@contextlib.asynccontextmanager
async def assembled(settings: Settings, owner: TaskScope, watches: Watches) -> AsyncIterator[ASGIApp]:
    """The application over the data folder, with its background tasks."""
    pki = settings.data_dir / "pki"
    authorizer = Authorizer()
    eventing, bindings = EventingAdmission(settings, authorizer), SinkBindingAdmission()
    registry = Registry(CORE_KINDS, project_kinds.CONVERSIONS)
    verbs = Verbs(registry, AdmissionChain(eventing, bindings, FeaturesAdmission(), RbacAdmission(authorizer)))
    cleaner = NamespaceCleaner(verbs)
    aggregation = Aggregation(verbs, bootstrap.kind_of(registry, policy.GROUP, "ClusterRole"))
    history: WatchHistory | None = None

    def committed(changes: list[Change]) -> None:
        _follow_definitions(registry, changes)
        for follower in (eventing, bindings, authorizer, aggregation, cleaner):
            follower.follow(changes)
        if history is not None:
            history.publish(changes)

    keyring = load_keyring(settings.secrets_key_file, settings.secrets_key_command, pki)
    reencrypt(settings.data_dir / "api.db", keyring)
    store = Store(settings.data_dir / "api.db", committed, owner, keyring)
    try:
        await _load(store, registry, eventing)
        stored = [decode(body) for body in (await store.page(SINK_BINDINGS, None)).bodies]
        bindings.load(stored, await _configmaps(store, None))
        await authorizer.load(store)
        await bootstrap.prepare(
            store,
            verbs,
            registry,
            node=node.node(settings.host, VERSION["gitVersion"]),
            definitions=project_kinds.crds(),
            objects=project_kinds.bootstrap_configmaps(settings),
        )
        history = WatchHistory(store.version())
        tokens, _ = identity.load_component_tokens(pki / "tokens.json")
        signer = load_signer(pki)
        api = ApiApp(
            registry,
            store,
            ReadEndpoints(store, history, watches),
            WriteEndpoints(store, verbs, authorizer),
            authenticator=Authenticator(tokens, signer, _lookup(store), is_revoked=Revocations(pki).is_revoked),
            authorizer=authorizer,
            limits=RequestLimits(settings.api_requests_per_second, time.monotonic),
            address=f"{reachable(settings.host)}:{settings.api_port}",
            logs=settings.data_dir / "logs" / "pods",
        )
        owner.start(expire_forever(store), "expiry of Events")
        owner.start(rotate_keys_forever(pki, signer, settings.signing_key_days), "rotation of signing keys")
        owner.start(cleaner.run(store), "namespace cleaner")
        owner.start(aggregation.run(store), "aggregation of ClusterRoles")
        with _audited(api.application(), settings) as app:
            yield app
    finally:
        await owner.close()
        await store.close()


@contextlib.contextmanager
def _audited(app: ASGIApp, settings: Settings) -> Iterator[ASGIApp]:
    """The application, with an audit log if one is configured."""
    if settings.api_audit_log is None:
        yield app
        return
    with contextlib.closing(AuditFile(settings.api_audit_log)) as file:
        yield AuditMiddleware(app, file)


async def _serve(
    app: ASGIApp, settings: Settings, listener: socket.socket, lifecycle: Lifecycle, watches: Watches
) -> None:
    pki, tls = settings.data_dir / "pki", RenewedContext()
    tls.show((pki / "server.crt").read_bytes(), (pki / "server.key").read_bytes())
    server = HttpServer(
        app, listener, tls.context, connection=BoundedConnection, most_connections=settings.api_max_connections
    )
    async with server.listening(settings.drain_seconds):
        try:
            lifecycle.ready(url=f"https://{server.address}")
            await lifecycle.stopping.wait()
        finally:
            # Watches would not end by themselves within the grace period, which is for all other requests.
            watches.end_all()


async def _load(store: Store, registry: Registry, eventing: EventingAdmission) -> None:
    """Loads stored definitions and ConfigMaps; later changes are followed."""
    for body in (await store.page(custom_kinds.RESOURCE, "")).bodies:
        _define(registry, decode(body))
    eventing.load(await _configmaps(store, eventing.namespace))


def _lookup(store: Store) -> Callable[[str, str, str], Obj | None]:
    def lookup(resource: str, namespace: str, name: str) -> Obj | None:
        body = store.get(resource, namespace, name)
        return None if body is None else decode(body)

    return lookup


async def _configmaps(store: Store, namespace: str | None) -> Iterable[Obj]:
    return [decode(body) for body in (await store.page("configmaps", namespace)).bodies]


def _follow_definitions(registry: Registry, changes: list[Change]) -> None:
    for change in changes:
        if change.resource != custom_kinds.RESOURCE:
            continue
        if change.type == "DELETED":
            registry.undefine(change.name)
        else:
            _define(registry, decode(change.body))


def _define(registry: Registry, definition: Obj) -> None:
    registry.define(definition["metadata"]["name"], custom_kinds.kinds_of(definition))


def _write_kubeconfigs(settings: Settings, pki: Path, by_user: dict[str, str]) -> None:
    authority = (pki / "ca.crt").read_bytes()
    here = f"https://{from_here(settings.host)}:{settings.api_port}"
    for name, user, server in (
        ("kubeconfig", identity.ADMIN, settings.api_url),
        ("kubeconfig-control", identity.CONTROLLER, here),
        ("kubeconfig-node", identity.NODE, here),
        ("kubeconfig-data-plane", identity.DATA_PLANE, here),
    ):
        kubeconfig.write_kubeconfig(
            settings.data_dir / name, server=server, authority=authority, user=user, token=by_user[user]
        )


def _allow_many_connections() -> None:
    """Raises the soft limit of open files, usually 1,024: every watch holds a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 65536), hard))
