"""All controllers as one component: it watches the API, publishes routes and writes statuses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from functools import partial

import structlog
from starlette.types import ASGIApp

from penstock.contract.names import service_names
from penstock.contract.routes import ServiceName
from penstock.controllers.reconciler import Reconciler, ReconcilerContext, ReconcilerWorkers
from penstock.controllers.reconcilers.access import enqueue_on_policy_changes
from penstock.controllers.reconcilers.broker import BrokerReconciler
from penstock.controllers.reconcilers.channel import ChannelReconciler, Subscribers
from penstock.controllers.reconcilers.configuration import TrustBundles
from penstock.controllers.reconcilers.eventpolicy import EventPolicyReconciler
from penstock.controllers.reconcilers.eventtransform import EventTransformReconciler
from penstock.controllers.reconcilers.eventtype import EventTypeMaker, EventTypeReconciler
from penstock.controllers.reconcilers.inmemorychannel import InMemoryChannelReconciler
from penstock.controllers.reconcilers.integrationsink import IntegrationSinkReconciler
from penstock.controllers.reconcilers.integrationsource import IntegrationSourceReconciler
from penstock.controllers.reconcilers.jobsink import JobSinkReconciler
from penstock.controllers.reconcilers.kservice import KServiceReconciler
from penstock.controllers.reconcilers.parallel import ParallelReconciler
from penstock.controllers.reconcilers.replay import ReplayReconciler
from penstock.controllers.reconcilers.requestreply import RequestReplyReconciler
from penstock.controllers.reconcilers.running_sources import Sources
from penstock.controllers.reconcilers.sequence import SequenceReconciler
from penstock.controllers.reconcilers.services import GUARDED, ServiceReconciler
from penstock.controllers.reconcilers.subscription import SubscriptionReconciler
from penstock.controllers.reconcilers.trigger import TriggerReconciler
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes import identity
from penstock.controllers.routes.dataplane import DataPlane
from penstock.controllers.routes.past import kept_since
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.routes.route_health import Announcer
from penstock.controllers.routes.route_records import (
    BROKER_INGRESS_HOST,
    JOB_SINK_HOST,
    REQUEST_REPLY_HOST,
    ingress_name,
)
from penstock.controllers.sinks.guarded_services import GuardedCertificates, GuardedServices
from penstock.controllers.sinks.job_sink import JobSinks
from penstock.controllers.sinks.request_reply import RequestReplies
from penstock.controllers.sinks.requests import SinkTokens
from penstock.controllers.tracker import Tracker
from penstock.controllers.workloads.reconcilers import workload_reconcilers
from penstock.destinations import Destinations
from penstock.kafka.routes import RoutesTopic
from penstock.kube.client import AsyncClient
from penstock.kube.config import read_config
from penstock.kube.kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    IN_MEMORY_CHANNEL,
    JOB_SINK,
    PARALLEL,
    REPLAY,
    SEQUENCE,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
    Key,
)
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.runtime.sockets import bound_socket
from penstock.runtime.tasks import TaskScope
from penstock.settings import IN_CLUSTER, Settings
from penstock.sources.deliveries import Sinks
from penstock.web.server import HttpServer
from penstock.web.tls_server import InMemoryCertificate, ServerTls, service_certificate

log = structlog.get_logger()

KUBECONFIG = "kubeconfig-control"
FIELD_MANAGER = "penstock-controller"
JOB_SINK_CERTIFICATE = "job-sinks"
"""The name of its files in the data folder."""
SINK_GRACE_SECONDS = 5.0
GUARDED_CERTIFICATE = "guarded-service"
"""The subject of the certificates of guarded Services; their DNS names say which Service."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs the controllers until the lifecycle stops."""
    kubeconfig = settings.kubeconfig or settings.data_dir / KUBECONFIG
    if kubeconfig != IN_CLUSTER and not await lifecycle.appears(kubeconfig):
        return
    api = AsyncClient(read_config(kubeconfig), field_manager=FIELD_MANAGER)
    workers = ReconcilerWorkers()
    topic = RoutesTopic(settings)
    publisher = Publisher(topic, workers.enqueue, partial(kept_since, settings) if settings.history else None)
    tracker = Tracker(api, workers.enqueue)
    recorder = EventRecorder(api)
    types = EventTypeMaker(api, tracker, publisher)

    def ingress_changed() -> None:
        for kind in (BROKER, IN_MEMORY_CHANNEL):
            workers.enqueue_all(context, kind)

    dataplane = DataPlane(
        settings,
        publisher,
        workers.enqueue,
        ingress_changed,
        type_seen=types.take,
        announce=Announcer(tracker, recorder, lifecycle.news),
        losses_shown=settings.loss_warning_hours * 3600,
    )
    context = ReconcilerContext(settings, api, tracker, publisher, dataplane, recorder)
    owner = TaskScope()
    subject = SinkTokens(settings, owner).subject
    job_sinks = JobSinks(api, tracker, settings.max_event_bytes, context.job_sink_guards, subject)
    sinks = Sinks(publisher.locate, destinations=Destinations(settings))
    requests = RequestReplies(tracker, context.reply_keys, sinks, settings.max_event_bytes)
    guarded = GuardedServices(context.service_guards, context.guarded_pods, settings.max_event_bytes, subject)
    servers: dict[str, dict[str, HttpServer]] = {}
    guards: dict[str, HttpServer] = {}
    if context.embedded:
        names_of = service_names(JOB_SINK_HOST)
        tls = ServerTls(settings, make=partial(service_certificate, settings, JOB_SINK_CERTIFICATE, names_of))
        tls.begin(lifecycle)
        servers[JOB_SINK_HOST] = {"80": _server(job_sinks), "443": _server(job_sinks, tls.context)}
        servers[REQUEST_REPLY_HOST] = {"80": _server(requests)}
        owner.start(tls.run(), "certificate of JobSinks")
        shown = GuardedCertificates(context.service_guards, partial(_passing_tls, settings))
        guards = {"80": _server(guarded), "443": _server(guarded, shown.context)}
        context.guard_ports = {port: server.address for port, server in guards.items()}
    names = [
        ServiceName(host, {port: (server.address,) for port, server in ports.items()})
        for host, ports in servers.items()
    ]
    try:
        await first(
            run_controllers(context, workers, lifecycle, types, names),
            *(_serve(server) for ports in (*servers.values(), guards) for server in ports.values()),
            owner.failed(),
            _stopping(lifecycle, topic),
        )
    finally:
        await owner.close()
        topic.close()
        await workers.close()
        await tracker.close()
        await dataplane.close()
        await requests.close()
        await guarded.close()
        await api.close()


def _passing_tls(settings: Settings, names: tuple[str, ...]) -> ServerTls:
    return ServerTls(settings, make=InMemoryCertificate(settings, GUARDED_CERTIFICATE, names))


def _server(app: ASGIApp, tls: ssl.SSLContext | None = None) -> HttpServer:
    return HttpServer(app, bound_socket("127.0.0.1", 0), tls)


async def _serve(server: HttpServer) -> None:
    async with server.listening(SINK_GRACE_SECONDS):
        await asyncio.Event().wait()  # until it is cancelled


async def run_controllers(
    context: ReconcilerContext,
    workers: ReconcilerWorkers,
    lifecycle: Lifecycle,
    types: EventTypeMaker,
    names: Sequence[ServiceName] = (),
) -> None:
    """Runs all tasks of the controllers; ends only when one of them fails. `names` are published beside those of
    objects."""
    async with asyncio.TaskGroup() as group:
        group.create_task(context.tracker.failed(), name="informers")
        group.create_task(workers.failed(), name="workers")
        bundles = TrustBundles(context.publisher, context.recorder)
        context.tracker.informer(CONFIG_MAP).listen(bundles.config_map_changed)
        sources = Sources(context, workers.enqueue, lambda: bundles.certificates)
        reconcilers = _register(context, workers, sources)
        await _restore_routes(context)
        context.dataplane.start()
        for kind in (CONFIG_MAP, *(reconciler.kind for reconciler in reconcilers)):
            await context.tracker.informer(kind).synced.wait()
        if context.embedded:
            name = ingress_name(BROKER_INGRESS_HOST, context.settings)
            # Owned by no object, so that no reconciler ever withdraws it.
            context.publisher.claim(("Ingress", Key("", "")), [name, *names])
        workers.start(reconcilers, context)
        await _first_pass(context, workers)
        group.create_task(_drop_unclaimed(context, workers), name="first pass")
        group.create_task(context.publisher.run(), name="publisher")
        group.create_task(context.dataplane.run(), name="data plane")
        group.create_task(context.recorder.run(), name="recorder")
        group.create_task(types.run(), name="event types")
        group.create_task(sources.run(), name="sources")
        group.create_task(_resync(context), name="resync")
        lifecycle.ready(version=context.publisher.version)
        log.info("controllers ready", version=context.publisher.version)


async def _restore_routes(context: ReconcilerContext) -> None:
    """Reads back the published routes, if they are this API's. Checks that both before `restore` fences off another
    publisher and after it, since that one may have written in between."""
    own = await identity.identify(context.api)
    adopt = context.settings.adopt_routes
    identity.check(await context.publisher.look(), own, adopt=adopt)
    identity.check(await context.publisher.restore(), own, adopt=adopt)
    context.publisher.claim(("Identity", Key("", "")), [own])


async def _stopping(lifecycle: Lifecycle, topic: RoutesTopic) -> None:
    await lifecycle.stopping.wait()
    # A thread that waits for Kafka would delay the end of the other tasks.
    topic.close()


async def _first_pass(context: ReconcilerContext, workers: ReconcilerWorkers) -> None:
    """Returns when every object has been reconciled once, with everything it refers to known. Does not wait for objects
    that change all the time, such as those that two controllers change in turn."""
    await workers.passed()
    while context.tracker.has_waiting:
        await context.tracker.all_known()
        await workers.passed()


CLAIMING = (BROKER, TRIGGER, IN_MEMORY_CHANNEL, REPLAY, SERVICE)
"""The kinds whose objects have records of their own."""


async def _drop_unclaimed(context: ReconcilerContext, workers: ReconcilerWorkers) -> None:
    """Records without a claim after the first pass belong to objects that were deleted. But an object that could not be
    reconciled has not claimed its records yet: while there is one, all records stay. Only kinds in `CLAIMING` count:
    an object of another kind, such as a source that lacks permissions, may fail for ever."""
    while workers.any_fails(CLAIMING):
        await workers.recovered(CLAIMING)
        await _first_pass(context, workers)
    context.publisher.drop_unclaimed()


def _register(context: ReconcilerContext, workers: ReconcilerWorkers, sources: Sources) -> list[Reconciler]:
    subscribers = Subscribers(workers.enqueue)
    # Before any reconciler listens: the list of a channel's Subscriptions must be up to date when it is reconciled.
    context.tracker.informer(SUBSCRIPTION).listen(subscribers.subscription_changed)
    reconcilers: list[Reconciler] = [
        BrokerReconciler(context),
        TriggerReconciler(context),
        ChannelReconciler(context, subscribers),
        InMemoryChannelReconciler(context, subscribers),
        SubscriptionReconciler(context, subscribers),
        SequenceReconciler(context),
        ParallelReconciler(context),
        EventTypeReconciler(context),
        EventPolicyReconciler(context),
        ReplayReconciler(context),
        *sources.reconcilers,
    ]
    if context.embedded:
        services = ServiceReconciler(context)
        services.listen_to_pods(workers)
        reconcilers += [
            services,
            KServiceReconciler(context),
            JobSinkReconciler(context),
            EventTransformReconciler(context),
            IntegrationSinkReconciler(context),
            IntegrationSourceReconciler(context),
            RequestReplyReconciler(context, context.reply_keys),
            *workload_reconcilers(context, workers),
        ]
    for reconciler in reconcilers:
        workers.register(reconciler, context)
    guarded = (BROKER, CHANNEL, IN_MEMORY_CHANNEL, SEQUENCE, PARALLEL)
    enqueue_on_policy_changes(context, workers, (*guarded, JOB_SINK, *GUARDED) if context.embedded else guarded)
    return reconcilers


async def _resync(context: ReconcilerContext) -> None:
    while True:
        await asyncio.sleep(context.settings.resync_seconds)
        context.tracker.resync()
