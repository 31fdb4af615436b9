"""A route that cannot be served on real Spark: the others are, and the acknowledgement says which one is not."""

from __future__ import annotations

import msgspec
import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.contract.routes import Route
from penstock.filters.columns import column
from penstock.filters.predicate import Cesql, Predicate
from penstock.filters.walk import MAX_TERMS
from penstock.router.plan import matching
from tests.integration.router.router_stage import Stage, newest_ack, trigger, wait_for_version
from tests.integration.router.test_live import StartRouter
from tests.waiting import eventually

ENORMOUS = " OR ".join(f"LENGTH(type) > {number}" for number in range(MAX_TERMS // 4 + 1))
IMPOSSIBLE = "LENGTH(type) > 12345"


def sql(uid: str, stage: Stage, text: str) -> Route:
    return msgspec.structs.replace(trigger(uid, stage.ends()), filters=[{"cesql": text}])


def test_routes_that_cannot_be_served_hold_up_nobody(
    stage: Stage, start_router: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One filter is too large; another makes Spark fail, which none that is known does, so it is made to here."""

    def unplannable(predicate: Predicate, attributes: Column) -> Column:
        if isinstance(predicate, Cesql) and predicate.text == IMPOSSIBLE:
            return F.col("no such column")
        return column(predicate, attributes)

    monkeypatch.setattr(matching, "column", unplannable)
    first = trigger("served", stage.ends(), type="refusal")
    stage.publish(first)
    router = start_router(stage.settings)
    long = sql("long", stage, "LENGTH(type) = 7")
    version = stage.publish(first, long, sql("enormous", stage, ENORMOUS), sql("impossible", stage, IMPOSSIBLE))
    wait_for_version(router, version)
    stage.send("through", "refusal")
    assert eventually(lambda: stage.ids("served") == ["through"] == stage.ids("long"))
    found = newest_ack(stage.settings, version).refused
    assert sorted(found) == ["enormous", "impossible"]
    assert "terms" in found["enormous"]
    assert "no such column" in found["impossible"]
    assert (router.status()["routes"], router.status()["refused"]) == (2, 2)
    version = stage.publish(first, long, sql("impossible", stage, "LENGTH(type) = 7"))
    wait_for_version(router, version)
    stage.send("mended", "refusal")
    assert eventually(lambda: "mended" in stage.ids("impossible"))
    assert newest_ack(stage.settings, version).refused == {}
    assert router.failure() is None
