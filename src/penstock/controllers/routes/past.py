"""Past events that a Trigger or Subscription asks for when it is created, where some are only in the history's table.

Beside the route another one is claimed, which replays the events from before the route begins: from the table, then
from Kafka, in order, with cursors of its own. Both are published in the same version, so that no event falls between
them. The replaying route is withdrawn when the status says that everything has been delivered; until then a lost record
of it is written again. The route itself never waits for it.
"""

from __future__ import annotations

import structlog

from penstock.contract.routes import Route, key_of, past_uid
from penstock.controllers.routes.dataplane import DataPlane
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.routes.route_records import past_route
from penstock.history.reader.table_events import FirstKept, KeptEvents
from penstock.history.schema.columns import HistoryProblem
from penstock.kube.kinds import Obj
from penstock.resources.replay import PartitionProgress, PastObservation, past_is
from penstock.settings import Settings

log = structlog.get_logger()


def with_past(publisher: Publisher, obj: Obj, own: Route, *, in_table: bool) -> list[Route]:
    """The routes to claim for a Trigger or Subscription: its own, and the one for past events until they are delivered.

    `in_table`: whether there is a history table that may have them."""
    since = own.asked_from
    held = publisher.held(f"route/{past_uid(own.uid)}")
    if isinstance(held, Route) and held.replay is not None:
        since = held.replay.since  # the annotation counts only when the object is created
    elif not in_table or not (publisher.held(key_of(own)) is None or past_is("Unknown", obj)):
        return [own]
    return [own] if since is None or past_is("True", obj) else [own, past_route(own, since)]


def observe_past(publisher: Publisher, dataplane: DataPlane, uid: str) -> PastObservation:
    """The state of a route's past events."""
    held = publisher.held(f"route/{past_uid(uid)}")
    not_kept = publisher.take_shortfall(f"route/{uid}") or ""
    if not isinstance(held, Route):
        return PastObservation(not_kept=not_kept)
    return PastObservation(True, progress_of(dataplane, held), not_kept)


def progress_of(dataplane: DataPlane, route: Route) -> list[PartitionProgress]:
    """The progress of a Replay that the dispatcher has reported, for every partition that it replays."""
    reported = dataplane.replayed(route.uid)
    ends = () if route.replay is None else route.replay.end
    found = []
    for number, (begin, end) in enumerate(zip(route.start, ends, strict=False)):
        one = reported.get(number)
        if one is None:
            found.append(PartitionProgress(number, begin, end, begin))
            continue
        found.append(
            PartitionProgress(
                number,
                begin,
                end,
                max(begin, one.position),
                one.counted,
                one.failed,
                one.under_way,
                one.missing,
                one.finished,
            )
        )
    return found


def kept_since(settings: Settings, since: float) -> dict[int, FirstKept]:
    """Where the history's table begins, by partition, for a Unix time. Empty where there is no table or it cannot be
    read: then Replays get only the events that Kafka still has. Blocks, so call it in a thread."""
    kept = KeptEvents(settings)
    try:
        return kept.firsts(since)
    except HistoryProblem as problem:
        log.warning("the history cannot be read; a Replay begins with what Kafka has", problem=str(problem))
        return {}
    finally:
        kept.close()
