"""The past that a Trigger or Subscription asks for when it is made, where the history's table has a part in it.

Beside the route is claimed another one, which replays what came before the route begins: from the table, then from
Kafka, in its order, with cursors of its own. It is there from the same version of the routes on, so that nothing falls
between the two, and goes when the status says that everything has been delivered; until then a record of it that is
lost is made again. The route never waits for it.
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


def with_past(publisher: Publisher, obj: Obj, own: Route, *, in_table: bool) -> list[Route]:
    """What is claimed for a Trigger or Subscription: its route, and what delivers its past while that is to be done.

    `in_table`: whether there is a table that could have it."""
    since = own.asked_from
    held = publisher.held(f"route/{past_uid(own.uid)}")
    if isinstance(held, Route) and held.replay is not None:
        since = held.replay.since  # the annotation counts when the object is made
    elif not in_table or not (publisher.held(key_of(own)) is None or past_is("Unknown", obj)):
        return [own]
    return [own] if since is None or past_is("True", obj) else [own, past_route(own, since)]


def observe_past(publisher: Publisher, dataplane: DataPlane, uid: str) -> PastObservation:
    """What there is to tell of the past of a route."""
    held = publisher.held(f"route/{past_uid(uid)}")
    not_kept = publisher.take_shortfall(f"route/{uid}") or ""
    if not isinstance(held, Route):
        return PastObservation(not_kept=not_kept)
    return PastObservation(True, progress_of(dataplane, held), not_kept)


def progress_of(dataplane: DataPlane, route: Route) -> list[PartitionProgress]:
    """What the dispatcher has told of a Replay, for every partition that it has a part in."""
    told = dataplane.replayed(route.uid)
    ends = () if route.replay is None else route.replay.end
    found = []
    for number, (begin, end) in enumerate(zip(route.start, ends, strict=False)):
        one = told.get(number)
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


# Where the history's table begins, for Replays of what Kafka has forgotten. Blocks: for a thread.

log = structlog.get_logger()


def kept_since(settings: Settings, since: float) -> dict[int, FirstKept]:
    """By partition; nothing where the table is not there, or cannot be read: then Replays have what Kafka has."""
    kept = KeptEvents(settings)
    try:
        return kept.firsts(since)
    except HistoryProblem as problem:
        log.warning("the history cannot be read; a Replay begins with what Kafka has", problem=str(problem))
        return {}
    finally:
        kept.close()
