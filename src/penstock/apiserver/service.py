"""The API server as a component: puts the parts together, listens, and stops in order.

Here, and only here, the generic server meets the kinds of this project: their definitions, their admission, and the
ConfigMaps that configure it.
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
from penstock.apiserver.access import kubeconfig as certificates
from penstock.apiserver.access.authentication import Authenticator
from penstock.apiserver.access.identity import Revocations
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.signing_keys import keep_forever, load_signer
from penstock.apiserver.cluster import bootstrap, node
from penstock.apiserver.cluster.aggregation import Aggregation
from penstock.apiserver.cluster.eventing_admission import RESOURCE as SINK_BINDINGS
from penstock.apiserver.cluster.eventing_admission import BindingGate, EventingGate, FeaturesGate
from penstock.apiserver.cluster.rbac_admission import RbacGate
from penstock.apiserver.documents import decode
from penstock.apiserver.http.app import VERSION, ApiApp
from penstock.apiserver.http.audit import Audited, AuditFile
from penstock.apiserver.http.connections import BoundedConnection
from penstock.apiserver.http.read_endpoints import ReadingVerbs
from penstock.apiserver.http.request_limits import FairUse
from penstock.apiserver.http.watching import Watches
from penstock.apiserver.http.write_endpoints import Changer
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.store.encryption import WrongKey, load_seals
from penstock.apiserver.store.expiry import expire_forever
from penstock.apiserver.store.reencryption import reencrypt
from penstock.apiserver.store.storage import Change, Store
from penstock.apiserver.verbs.admission import Gates
from penstock.apiserver.verbs.history import WatchHistory
from penstock.apiserver.verbs.namespace_finalizer import Emptying
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
"""How soon the writer's thread gets its turn while the loop is busy; every statement of SQLite asks for one."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until told to stop."""
    # Taken first, so that a port in use is told before anything is touched.
    taken = listen(lifecycle, "the API", settings.host, settings.api_port, "api_port")
    with contextlib.closing(taken) as listener:
        await _run(settings, lifecycle, listener)


async def _run(settings: Settings, lifecycle: Lifecycle, listener: socket.socket) -> None:
    _allow_many_connections()
    sys.setswitchinterval(SWITCH_SECONDS)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    pki = settings.data_dir / "pki"
    certificates.ensure(pki, *server_names(settings))
    _write_kubeconfigs(settings, pki, identity.load_tokens(pki / "tokens.json")[1])
    owner, watches = TaskScope(), Watches()
    try:
        async with assembled(settings, owner, watches) as app:
            await first(_serve(app, settings, listener, lifecycle, watches), owner.failed())
    except WrongKey as error:
        lifecycle.fail(str(error))
        raise


@contextlib.asynccontextmanager
async def assembled(settings: Settings, owner: TaskScope, watches: Watches) -> AsyncIterator[ASGIApp]:
    """The application over the data folder, with everything that goes on behind it."""
    pki = settings.data_dir / "pki"
    authorizer = Authorizer()
    gate, bindings = EventingGate(settings, authorizer), BindingGate()
    registry = Registry(CORE_KINDS, project_kinds.CONVERSIONS)
    verbs = Verbs(registry, Gates(gate, bindings, FeaturesGate(), RbacGate(authorizer)))
    emptying = Emptying(verbs)
    aggregation = Aggregation(verbs, bootstrap.kind_of(registry, policy.GROUP, "ClusterRole"))
    history: WatchHistory | None = None

    def committed(changes: list[Change]) -> None:
        _follow_definitions(registry, changes)
        for follower in (gate, bindings, authorizer, aggregation, emptying):
            follower.follow(changes)
        if history is not None:
            history.publish(changes)

    seals = load_seals(settings.secrets_key_file, settings.secrets_key_command, pki)
    reencrypt(settings.data_dir / "api.db", seals)
    store = Store(settings.data_dir / "api.db", committed, owner, seals)
    try:
        await _load(store, registry, gate)
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
        tokens, _ = identity.load_tokens(pki / "tokens.json")
        signer = load_signer(pki)
        api = ApiApp(
            registry,
            store,
            ReadingVerbs(store, history, watches),
            Changer(store, verbs, authorizer),
            authenticator=Authenticator(tokens, signer, _lookup(store), is_revoked=Revocations(pki).covers),
            authorizer=authorizer,
            fair_use=FairUse(settings.api_requests_per_second, time.monotonic),
            address=f"{reachable(settings.host)}:{settings.api_port}",
            logs=settings.data_dir / "logs" / "pods",
        )
        owner.start(expire_forever(store), "expiry of events")
        owner.start(keep_forever(pki, signer, settings.signing_key_days), "keys for tokens")
        owner.start(emptying.run(store), "emptying of namespaces")
        owner.start(aggregation.run(store), "aggregation of ClusterRoles")
        with _audited(api.application(), settings) as app:
            yield app
    finally:
        await owner.close()
        await store.close()


@contextlib.contextmanager
def _audited(app: ASGIApp, settings: Settings) -> Iterator[ASGIApp]:
    """The application, with an audit log where one is asked for."""
    if settings.api_audit_log is None:
        yield app
        return
    with contextlib.closing(AuditFile(settings.api_audit_log)) as lines:
        yield Audited(app, lines)


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
            # Watches never end on their own; everything else is given time to finish.
            watches.end_all()


async def _load(store: Store, registry: Registry, gate: EventingGate) -> None:
    """Brings what is stored to those who follow changes from now on."""
    for body in (await store.page(custom_kinds.RESOURCE, "")).bodies:
        _define(registry, decode(body))
    gate.load(await _configmaps(store, gate.namespace))


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
        kubeconfig.write(settings.data_dir / name, server=server, authority=authority, user=user, token=by_user[user])


def _allow_many_connections() -> None:
    """Every watch is a connection; the usual soft limit of 1,024 files is too low for thousands of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 65536), hard))
