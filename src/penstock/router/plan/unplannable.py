"""Routes that the query leaves out, so that one of them does not block all the others.

Admission and `parse` refuse the filters that Spark is known not to plan. If a generation fails all the same, the routes
whose filters are expressions of the query are tried on Spark without Kafka, in halves, until those are found that fail:
one made-up event is routed in a batch, and nothing is written. Routes that Spark cannot analyse are left out until
their filter changes. Any other failure may be Spark's own (an executor was lost, memory was short): such a route is
tried again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contract import records
from penstock.contract.routes import Route
from penstock.events.event import REQUIRED
from penstock.events.kafka_binding import PREFIX
from penstock.router.plan.route_index import index_routes
from penstock.router.plan.routing import route

AGAIN_SECONDS = 300.0
"""Pause before a route that failed for another reason than its filter is tried again."""


class Unfit(NamedTuple):
    """Why routes cannot be planned together."""

    reason: str
    final: bool = True
    """Whether it is because of the filters; otherwise they may be planned another time."""


class _Known(NamedTuple):
    """A route that is left out."""

    filter: object
    reason: str
    until: float


Probe = Callable[[Sequence[Route]], Unfit | None]
"""Why these routes cannot be planned together; None where they can."""


class Unplannable:
    """What is known about routes that do not fit into a query."""

    def __init__(self, probe: Probe, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe, self._clock = probe, clock
        self._known: dict[str, _Known] = {}

    def due(self) -> bool:
        """Whether routes that were left out are to be tried again."""
        return any(found.until <= self._clock() for found in self._known.values())

    def known(self, routes: Mapping[str, Route]) -> dict[str, str]:
        """Those among the routes that are known not to fit, and why. A route with another filter has its chance."""
        self._known = {
            uid: found
            for uid, found in self._known.items()
            if uid in routes and _filter(routes[uid]) == found.filter and found.until > self._clock()
        }
        return {uid: found.reason for uid, found in self._known.items()}

    def examine(self, routes: Mapping[str, Route], live: Mapping[str, Route]) -> bool:
        """Looks for routes that made a generation fail; True if there are some that were not known before.

        Those of the live generation are tried first, so that what works already is not left out for what is new.
        """
        known = self.known(routes)
        suspects = [r for uid, r in routes.items() if uid not in known and index_routes([r]).predicates]
        if not suspects or self._probe([]) is not None:
            return False
        suspects.sort(key=lambda route: route.uid not in live)
        found = split_off_unplannable(suspects, self._probe)
        if not all(unfit.final for unfit in found.values()) and self._probe([]) is not None:
            return False  # Spark has failed meanwhile
        for uid, (reason, final) in found.items():
            until = math.inf if final else self._clock() + AGAIN_SECONDS
            again = "" if final else f"; it is tried again in {AGAIN_SECONDS / 60:g} minutes"
            self._known[uid] = _Known(_filter(routes[uid]), reason + again, until)
        return bool(found)


def split_off_unplannable(routes: Sequence[Route], probe: Probe) -> dict[str, Unfit]:
    """The routes that cannot be planned together with those before them, and why."""
    fit: list[Route] = []
    unfit: dict[str, Unfit] = {}

    def take(group: Sequence[Route]) -> None:
        found = probe([*fit, *group])
        if found is None:
            fit.extend(group)
        elif len(group) == 1:
            unfit[group[0].uid] = found
        else:
            half = len(group) // 2
            take(group[:half])
            take(group[half:])

    take(routes)
    return unfit


def _filter(route: Route) -> object:
    return route.attributes, route.filters


LONGEST_REASON = 300


def attempt(spark: SparkSession, routes: Sequence[Route]) -> Unfit | None:
    """Why Spark cannot route by these routes; None where it can. Only what it says of the filters is final: anything
    else may be a failure of its own."""
    try:
        route(_event(spark, routes[0].target if routes else ""), index_routes(routes), 0).collect()
    except (Py4JJavaError, PySparkException, RecursionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST_REASON]
        return Unfit(reason, final=isinstance(error, (AnalysisException, RecursionError)))
    return None


def _event(spark: SparkSession, target: str) -> DataFrame:
    """One record as the Kafka source gives it. It hangs on a column, lest Spark work everything out beforehand."""
    text = F.concat(F.lit("trial"), F.col("id").cast("string"))
    values = {**{PREFIX + name: text for name in REQUIRED}, records.TARGET: F.lit(target)}
    pairs = [F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in values.items()]
    return spark.range(1).select(
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        text.cast("binary").alias("key"),
        text.cast("binary").alias("value"),
        F.array(*pairs).alias("headers"),
    )
