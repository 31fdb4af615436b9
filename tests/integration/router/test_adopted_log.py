"""`penstock.events` is deleted and made again: nothing is routed by old offsets, until the new log is adopted."""

from __future__ import annotations

import pytest

from penstock.contract import topics
from penstock.contract.event_log import AnotherLog
from penstock.engine.topics import adoption, topic_setup
from penstock.kafka.admin import TopicAdmin
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage, trigger
from tests.integration.router.test_live import StartRouter
from tests.waiting import eventually


@pytest.mark.timeout(400)
def test_a_log_that_was_made_again_is_refused_until_it_is_adopted(
    own_topics: Settings, stage: Stage, start_router: StartRouter
) -> None:
    stage.publish(trigger("all", stage.ends()))
    router = start_router(stage.settings)
    for number in range(20):
        stage.send(f"before-{number}")
    assert eventually(lambda: len(stage.ids("all")) == 20)
    with pytest.raises(UserError, match="A pipeline is running: router"):
        adoption.adopt(own_topics)
    router.stop()

    admin = TopicAdmin(own_topics)
    admin.delete([topics.EVENTS])
    eventually(lambda: topics.EVENTS not in admin.topics())
    topic_setup.ensure(own_topics)
    with pytest.raises(AnotherLog, match="penstock topics --adopt-events"):
        start_router(stage.settings)

    done = adoption.adopt(own_topics)
    assert done[0] == "1 routes begin with the oldest event"
    after = Stage(own_topics)
    try:
        after.send("after")
        start_router(own_topics)
        assert eventually(lambda: after.ids("all") == ["after"])
    finally:
        after.close()
