"""A task of the query is killed: Spark would run it again from the beginning of its long batch, the router goes on.

How much Spark has written again before it is noticed is a matter of luck, and of the dispatcher's cursors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.router.service import RouterService
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage, steady_load, trigger
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def running_tasks(spark: SparkSession) -> list[int]:
    """Ids of the tasks that run now."""
    context: Any = spark.sparkContext._jsc.sc()
    found = []
    for stage in spark.sparkContext.statusTracker().getActiveStageIds():
        tasks = context.statusStore().taskList(stage, 0, 100)
        found += [tasks.apply(n).taskId() for n in range(tasks.size()) if tasks.apply(n).status() == "RUNNING"]
    return found


def test_the_router_goes_on_with_a_new_generation_after_a_task_was_killed(
    stage: Stage, start_router: Callable[[Settings], RouterService], spark: SparkSession
) -> None:
    stage.publish(trigger("victim", stage.ends(), type="victim"))
    router = start_router(stage.settings)
    generation = router.status()["generation"]
    with steady_load(stage, "victim", pause=0.005) as sent:
        eventually(lambda: len(sent) > 300)
        tasks = eventually(lambda: len(now := running_tasks(spark)) == stage.settings.partitions and now)
        spark.sparkContext._jsc.sc().killTaskAttempt(tasks[0], True, "a test")
        eventually(lambda: router.status()["generation"] > generation, 120)
        reached = len(sent)
        eventually(lambda: len(sent) > reached + 100)
    eventually(lambda: set(sent) <= set(stage.ids("victim")), 120)
    assert router.failure() is None
    print(f"{len(sent)} accepted, all routed, {len(stage.ids('victim')) - len(sent)} written again")
