"""The control plane's controllers as one component: watches the API, publishes routes, writes statuses."""

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
from penstock.controllers.reconcilers.access import tell_of_policies
from penstock.controllers.reconcilers.broker import BrokerReconciler
from penstock.controllers.reconcilers.channel import ChannelReconciler, Subscribers
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
from penstock.controllers.routes.trust_bundles import TrustBundles
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
from penstock.runtime.tasks import Owner
from penstock.settings import IN_CLUSTER, Settings
from penstock.sources.deliveries import Sinks
from penstock.web.server import HttpServer
from penstock.web.tls_server import InMemoryCertificate, ServerTls, service_certificate

log = structlog.get_logger()

KUBECONFIG = "kubeconfig-control"
FIELD_MANAGER = "penstock-controller"
JOB_SINK_CERTIFICATE = "job-sinks"
"""Its files in the data folder."""
SINK_GRACE_SECONDS = 5.0
GUARDED_CERTIFICATE = "guarded-service"
"""The subject of certificates of guarded Services; which one, is in their names."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs the controllers until told to stop."""
    kubeconfig = settings.kubeconfig or settings.data_dir / KUBECONFIG
    if kubeconfig != IN_CLUSTER and not await lifecycle.appears(kubeconfig):
        return
    api = AsyncClient(read_config(kubeconfig), field_manager=FIELD_MANAGER)
    workers = ReconcilerWorkers()
    topic = RoutesTopic(settings)
    publisher = Publisher(topic, partial(kept_since, settings) if settings.history else None)
    tracker = Tracker(api, workers.enqueue)
    recorder = EventRecorder(api)

    def ingress_changed() -> None:
        for kind in (BROKER, IN_MEMORY_CHANNEL):
            workers.enqueue_all(world, kind)

    dataplane = DataPlane(
        settings,
        publisher,
        workers.enqueue,
        ingress_changed,
        losses_shown=settings.loss_warning_hours * 3600,
    )
    world = ReconcilerContext(settings, api, tracker, publisher, dataplane, recorder)
    owner = Owner()
    subject = SinkTokens(settings, owner).subject
    job_sinks = JobSinks(api, tracker, settings.max_event_bytes, world.job_sink_guards, subject)
    sinks = Sinks(publisher.locate, destinations=Destinations(settings))
    requests = RequestReplies(tracker, world.reply_keys, sinks, settings.max_event_bytes)
    guarded = GuardedServices(world.service_guards, world.guarded_pods, settings.max_event_bytes, subject)
    servers: dict[str, dict[str, HttpServer]] = {}
    guards: dict[str, HttpServer] = {}
    if world.embedded:
        names_of = service_names(JOB_SINK_HOST)
        tls = ServerTls(settings, make=partial(service_certificate, settings, JOB_SINK_CERTIFICATE, names_of))
        tls.begin(lifecycle)
        servers[JOB_SINK_HOST] = {"80": _server(job_sinks), "443": _server(job_sinks, tls.context)}
        servers[REQUEST_REPLY_HOST] = {"80": _server(requests)}
        owner.start(tls.run(), "certificate of JobSinks")
        shown = GuardedCertificates(world.service_guards, partial(_passing_tls, settings))
        guards = {"80": _server(guarded), "443": _server(guarded, shown.context)}
        world.guard_ports = {port: server.address for port, server in guards.items()}
    names = [
        ServiceName(host, {port: (server.address,) for port, server in ports.items()})
        for host, ports in servers.items()
    ]
    try:
        await first(
            work_on(world, workers, lifecycle, names),
            *(_serve(server) for ports in (*servers.values(), guards) for server in ports.values()),
            owner.failed(),
            _told_to_stop(lifecycle, topic),
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


async def work_on(
    world: ReconcilerContext, workers: ReconcilerWorkers, lifecycle: Lifecycle, names: Sequence[ServiceName] = ()
) -> None:
    """Everything that goes on at once; ends only when one of it fails for good."""
    async with asyncio.TaskGroup() as group:
        group.create_task(world.tracker.failed(), name="informers")
        group.create_task(workers.failed(), name="workers")
        types = EventTypeMaker(world.api, world.tracker, world.publisher)
        world.dataplane.type_seen = types.take
        world.dataplane.happened = Announcer(world.tracker, world.recorder, lifecycle.news)
        bundles = TrustBundles(world.publisher, world.recorder)
        world.tracker.informer(CONFIG_MAP).listen(bundles.announce)
        sources = Sources(world, workers.enqueue, lambda: bundles.certificates)
        reconcilers = _employ(world, workers, sources)
        await _take_routes(world)
        world.dataplane.start()
        for kind in (CONFIG_MAP, *(reconciler.kind for reconciler in reconcilers)):
            await world.tracker.informer(kind).synced.wait()
        if world.embedded:
            name = ingress_name(BROKER_INGRESS_HOST, world.settings)
            # Owned by no object, so that no reconciler ever gives it up.
            world.publisher.claim(("Ingress", Key("", "")), [name, *names])
        workers.start(reconcilers, world)
        await _first_pass(world, workers)
        group.create_task(_drop_unclaimed(world, workers), name="first pass")
        group.create_task(world.publisher.run(), name="publisher")
        group.create_task(world.dataplane.run(), name="data plane")
        group.create_task(world.recorder.run(), name="recorder")
        group.create_task(types.run(), name="event types")
        group.create_task(sources.run(), name="sources")
        group.create_task(_resync(world), name="resync")
        lifecycle.ready(version=world.publisher.version)
        log.info("controllers ready", version=world.publisher.version)


async def _take_routes(world: ReconcilerContext) -> None:
    """Takes up what is published, if it is this API's. Looks before it takes it from who publishes there, and after."""
    own = await identity.identify(world.api)
    adopt = world.settings.adopt_routes
    identity.check(await world.publisher.look(), own, adopt=adopt)
    identity.check(await world.publisher.restore(), own, adopt=adopt)
    world.publisher.claim(("Identity", Key("", "")), [own])


async def _told_to_stop(lifecycle: Lifecycle, topic: RoutesTopic) -> None:
    await lifecycle.stopping.wait()
    # A thread that waits for Kafka would hold up the end of the work.
    topic.close()


async def _first_pass(world: ReconcilerContext, workers: ReconcilerWorkers) -> None:
    """Returns when every object has been looked at once, with all it refers to. Objects that change all the time, such
    as those that two controllers change in turn, are not waited for."""
    await workers.passed()
    while world.tracker.anyone_waits:
        await world.tracker.all_known()
        await workers.passed()


CLAIMING = (BROKER, TRIGGER, IN_MEMORY_CHANNEL, REPLAY, SERVICE)
"""The kinds whose objects have records of their own."""


async def _drop_unclaimed(world: ReconcilerContext, workers: ReconcilerWorkers) -> None:
    """What nobody has claimed after the first pass belongs to objects that are gone. But one that could not be
    reconciled may have claimed nothing for that reason: as long as there is any, all stays as it was. An object of a
    kind that never claims anything, such as a source that lacks permissions, may fail for ever."""
    while workers.any_fails(CLAIMING):
        await workers.recovered(CLAIMING)
        await _first_pass(world, workers)
    world.publisher.drop_unclaimed()


def _employ(world: ReconcilerContext, workers: ReconcilerWorkers, sources: Sources) -> list[Reconciler]:
    subscribers = Subscribers(workers.enqueue)
    # The list of a channel's Subscriptions must be up to date when a reconciler hears of the change.
    world.tracker.informer(SUBSCRIPTION).listen(subscribers.announce)
    reconcilers: list[Reconciler] = [
        BrokerReconciler(world),
        TriggerReconciler(world),
        ChannelReconciler(world, subscribers),
        InMemoryChannelReconciler(world, subscribers),
        SubscriptionReconciler(world, subscribers),
        SequenceReconciler(world),
        ParallelReconciler(world),
        EventTypeReconciler(world),
        EventPolicyReconciler(world),
        ReplayReconciler(world),
        *sources.reconcilers,
    ]
    if world.embedded:
        services = ServiceReconciler(world)
        services.listen_to_pods(workers)
        reconcilers += [
            services,
            KServiceReconciler(world),
            JobSinkReconciler(world),
            EventTransformReconciler(world),
            IntegrationSinkReconciler(world),
            IntegrationSourceReconciler(world),
            RequestReplyReconciler(world, world.reply_keys),
            *workload_reconcilers(world, workers),
        ]
    for reconciler in reconcilers:
        workers.employ(reconciler, world)
    guarded = (BROKER, CHANNEL, IN_MEMORY_CHANNEL, SEQUENCE, PARALLEL)
    tell_of_policies(world, workers, (*guarded, JOB_SINK, *GUARDED) if world.embedded else guarded)
    return reconcilers


async def _resync(world: ReconcilerContext) -> None:
    while True:
        await asyncio.sleep(world.settings.resync_seconds)
        world.tracker.resync()
