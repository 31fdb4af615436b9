"""Going on with a `penstock.events` that is another log than before: a copy with other offsets, or one made again.

What was made of the former log, and refers to it by offsets, is removed: the cursors with the deliveries under way, the
attempts, the matched events, and what routers noted. The routes stay, and begin with the oldest event of the log as it
is. So every route gets all that the log holds, also what it had before.

What routers noted goes last, since it tells that there is something to adopt: should this be ended before, pipelines
refuse the log still, and it can be done again.
"""

from __future__ import annotations

import time

import msgspec

from penstock.contract.routes import Record, Route, ServiceName, Target, Version, encode
from penstock.contract.topics import ATTEMPTS, CURSORS, EVENTS, MATCHED, REPORTS
from penstock.engine.topics import installation_state, setup
from penstock.kafka.admin import TopicAdmin
from penstock.kafka.clients import topic_name
from penstock.kafka.routes import RoutesTopic, StoredRoutes
from penstock.runtime.errors import Problem
from penstock.settings import Settings

MADE_OF_EVENTS = (CURSORS, ATTEMPTS, MATCHED, REPORTS)
GONE_SECONDS = 60.0
"""How long Kafka may take to remove topics."""


def adopt(settings: Settings) -> list[str]:
    """Removes what refers to the former log; returns what was done, in lines. Raises Problem where a pipeline works."""
    admin = setup.connect(settings)
    with setup.refusals(settings):
        existing = admin.topics()
        if EVENTS in existing:  # what is made again has as many partitions as the log, whatever the settings say
            settings = settings.model_copy(update={"partitions": existing[EVENTS].partitions})
        setup.create_missing(admin, settings, existing)
        if working := installation_state.instances(settings, "router", "dispatcher"):
            raise Problem(
                f"A pipeline works here: {', '.join(working)}.",
                "Stop every control and pipeline, and repeat this.",
            )
        count = _begin_anew(settings)
        for name in MADE_OF_EVENTS:
            admin.delete([name])
            _await_gone(admin, name)
        setup.create_missing(admin, settings, admin.topics())
    return [f"{count} routes begin with the oldest event"] + [
        f"made {topic_name(settings, name)} again, empty" for name in MADE_OF_EVENTS
    ]


def _begin_anew(settings: Settings) -> int:
    topic = RoutesTopic(settings)
    try:
        stored = topic.read()
        changes, version = without_starts(stored)
        topic.write([(key, encode(record)) for key, record in changes.items()], encode(version))
    finally:
        topic.close()
    return len(changes)


def without_starts(stored: StoredRoutes) -> tuple[dict[str, Record], Version]:
    """The routes as they are, but from the oldest event on, and the version that completes the change. Pure.

    A Replay keeps what it asks for, which is a part of the former log.
    """
    changes: dict[str, Record] = {
        key: msgspec.structs.replace(record, start=())
        for key, record in stored.records.items()
        if isinstance(record, Route) and record.replay is None
    }
    counts = [
        sum(isinstance(record, kind) for record in stored.records.values()) for kind in (Target, Route, ServiceName)
    ]
    return changes, Version(stored.version + 1, *counts)


def _await_gone(admin: TopicAdmin, name: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while name in admin.topics():
        if time.monotonic() > deadline:
            raise Problem(f"Kafka has not removed {name} yet.", "Repeat this.")
        time.sleep(0.2)
