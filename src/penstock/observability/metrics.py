"""Every metric of penstock, with its text. docs/observability.md lists the same; a test compares them.

No label takes its value from an event: labels name objects of the control plane, codes and outcomes, so their number
is bounded by the configuration. `TargetMetrics` and `RouteMetrics` bind them once per object.
"""

from __future__ import annotations

from penstock.observability.instruments import OBJECT, Bound, Instrument, counter, forget_object, gauge, histogram

DISPATCH = histogram(
    "kn_eventing_dispatch_duration_seconds",
    "Seconds that one request took: storing an event at the ingress, or one attempt to deliver it.",
    *OBJECT,
    "code",
)
PROCESS = histogram(
    "kn_eventing_process_duration_seconds",
    "Seconds between the acceptance of an event and the start of its first delivery attempt.",
    *OBJECT,
)
ACCEPTED = counter("penstock_events_accepted_total", "Events answered with 202: they are durable.", *OBJECT)
REJECTED = counter(
    "penstock_requests_rejected_total",
    "Requests to the ingress that were not accepted, by status code. Without labels where no target was found.",
    *OBJECT,
    "code",
)
PENDING = gauge(
    "penstock_ingress_pending_events",
    "Events received and not yet confirmed by Kafka, all ingress processes together.",
    merge="livesum",
)
MATCHED = counter("penstock_events_matched_total", "Events that matched and were taken for delivery.", *OBJECT)
ATTEMPTS = counter(
    "penstock_delivery_attempts_total",
    "Delivery attempts by stage (subscriber, reply, deadletter) and outcome (success, retryable, final).",
    *OBJECT,
    "stage",
    "outcome",
)
RETRIES = counter("penstock_delivery_retries_total", "Delivery attempts after the first one of a stage.", *OBJECT)
DELIVERED = counter("penstock_events_delivered_total", "Deliveries that the subscriber accepted.", *OBJECT)
DEAD_LETTERED = counter("penstock_events_dead_lettered_total", "Events that the dead letter sink accepted.", *OBJECT)
DROPPED = counter(
    "penstock_events_dropped_total",
    "Deliveries given up without a dead letter sink that took them: the event is lost to this route.",
    *OBJECT,
)
REPLIES = counter("penstock_replies_total", "Replies of subscribers that were stored or delivered.", *OBJECT)
DISCARDED_BODIES = counter(
    "penstock_response_bodies_discarded_total",
    "2xx responses of subscribers whose body is not an event; the delivery succeeded and the body was dropped.",
    *OBJECT,
)
LOST = counter(
    "penstock_events_lost_total",
    "Events that retention removed before the route came to them.",
    *OBJECT,
)
LAG = gauge(
    "penstock_route_lag_events",
    "Events that the route has not finished: outstanding, waiting for room, held by a pause, or still to be read.",
    *OBJECT,
    merge="livesum",
)
OUTSTANDING = gauge(
    "penstock_route_outstanding_deliveries",
    "Deliveries started and not finished, waiting retries included.",
    *OBJECT,
    merge="livesum",
)
OLDEST = gauge(
    "penstock_route_oldest_outstanding_seconds",
    "Age of the oldest event that the route has not finished; 0 where there is none.",
    *OBJECT,
    merge="livemax",
)
DETACHED = gauge(
    "penstock_route_detached_partitions",
    "Partitions in which the route is behind and reads on from its own cursor.",
    *OBJECT,
    merge="livesum",
)
EXPIRING = gauge(
    "penstock_route_events_expiring",
    "1 while retention will remove events that wait for the route, within an hour, from wherever they are kept.",
    *OBJECT,
    merge="livemax",
)
UNREACHABLE = gauge(
    "penstock_route_unreachable",
    "1 while no connection to the subscriber can be made, or nothing is sent to it because something is missing here.",
    *OBJECT,
    merge="livemax",
)
ROUTER_TRANSIT = histogram(
    "penstock_router_transit_seconds",
    "Seconds that a position marker took through the router: the latency that routing adds.",
)
ROUTER_GENERATION = gauge("penstock_router_generation", "Generation of the query that routes now.", merge="livemax")
ROUTER_SWITCHES = counter("penstock_router_switches_total", "Changes from one generation of the query to the next.")
ROUTER_MARKERS_OVERDUE = gauge(
    "penstock_router_markers_overdue",
    "Partitions whose newest marker has not come out in time: routing stands still there.",
    merge="livesum",
)
ROUTER_REFUSED = gauge(
    "penstock_router_routes_refused",
    "Triggers whose filter Spark cannot run: they are left out, and not Ready.",
    merge="livesum",
)
DATA_UNREAD = counter(
    "penstock_events_data_unread_total",
    "Events whose data a filter asks for and that have no JSON data: no filter on data holds for them.",
)
UNREADABLE = counter(
    "penstock_records_unreadable_total",
    "Records that could not be read and were passed over, by topic.",
    "topic",
)
SHUT_OUT = counter(
    "penstock_records_shut_out_total",
    "Records of penstock.matched written by a fenced generation of the router; they are ignored.",
)
REFUSED_RECORDS = counter(
    "penstock_records_refused_total",
    "Records that Kafka did not take, such as one that is too large, and that were left out, by topic.",
    "topic",
)
AT_WORK = gauge(
    "penstock_role_at_work",
    "Processes that have a role which only one may have at a time: 1 for each role, 0 only while it is taken over.",
    "role",
    merge="livesum",
)
SNAPSHOT_VERSION = gauge(
    "penstock_snapshot_version", "Version of the routes that a component acts by.", "component", merge="livemax"
)


class Rejections:
    """Refused requests to one Broker or Channel, by code; to none of them where the labels are empty."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self._labels = (kind, namespace, name)
        self._rejected: dict[int, Bound] = {}

    def rejected(self, code: int) -> None:
        """A request was answered with an error."""
        bound = self._rejected.get(code)
        if bound is None:
            bound = self._rejected[code] = REJECTED.bind(*self._labels, str(code))
        bound.inc()


class TargetMetrics(Rejections):
    """The metrics of one Broker or Channel, bound."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__(kind, namespace, name)
        self._accepted = ACCEPTED.bind(*self._labels)
        self._stored = DISPATCH.bind(*self._labels, "202")

    def accepted(self, events: int, seconds: float) -> None:
        """A request with so many events was answered 202 after so long."""
        self._accepted.inc(events)
        self._stored.observe(seconds)

    def forget(self) -> None:
        """The target is gone."""
        forget_object(*self._labels)


class _OnFirstUse:
    """Binds an instrument to a route's labels when it is first used: of ten thousand Triggers most stay silent."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, route: RouteMetrics, owner: type) -> Bound:
        bound = route.__dict__[self._name] = self._instrument.bind(*route.labels)
        return bound


class RouteMetrics:
    """The metrics of one Trigger or Subscription."""

    matched = _OnFirstUse(MATCHED)
    processed = _OnFirstUse(PROCESS)
    retries = _OnFirstUse(RETRIES)
    delivered = _OnFirstUse(DELIVERED)
    dead_lettered = _OnFirstUse(DEAD_LETTERED)
    dropped = _OnFirstUse(DROPPED)
    replies = _OnFirstUse(REPLIES)
    discarded_bodies = _OnFirstUse(DISCARDED_BODIES)
    lost = _OnFirstUse(LOST)
    lag = _OnFirstUse(LAG)
    outstanding = _OnFirstUse(OUTSTANDING)
    oldest = _OnFirstUse(OLDEST)
    detached = _OnFirstUse(DETACHED)
    expiring = _OnFirstUse(EXPIRING)
    unreachable = _OnFirstUse(UNREACHABLE)

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self.labels = (kind, namespace, name)
        self._attempts: dict[tuple[str, str], Bound] = {}
        self._durations: dict[int, Bound] = {}

    def attempt(self, stage: str, outcome: str, code: int, seconds: float) -> None:
        """One attempt is over; `code` is the status, 0 where there was no answer."""
        key = (stage, outcome)
        bound = self._attempts.get(key)
        if bound is None:
            bound = self._attempts[key] = ATTEMPTS.bind(*self.labels, stage, outcome)
        bound.inc()
        # A subscriber chooses its status codes; odd ones share a label so that it cannot choose how many there are.
        code = code if 200 <= code <= 599 else 0
        duration = self._durations.get(code)
        if duration is None:
            duration = self._durations[code] = DISPATCH.bind(*self.labels, str(code))
        duration.observe(seconds)

    def forget(self) -> None:
        """The route is gone."""
        forget_object(*self.labels)
