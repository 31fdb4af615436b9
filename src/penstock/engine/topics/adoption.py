"""`penstock topics --adopt-events`: continues with a `penstock.events` that is a new log, a copy with other offsets.

Everything that refers to offsets of the former log is removed: the cursors with deliveries in progress, the attempts,
the matched events, and the reports of routers. The routes stay and begin with the oldest event in the new log, so every
route gets all events in it, including those that it had before.

The reports are removed last, because they identify the former log: if this is interrupted, pipelines still refuse the
new log and the command can be repeated.
"""

from __future__ import annotations

import time

import msgspec

from penstock.contract.routes import Record, Route, ServiceName, Target, Version, encode
from penstock.contract.topics import ATTEMPTS, CURSORS, EVENTS, MATCHED, REPORTS
from penstock.engine.topics import installation_state, topic_setup
from penstock.kafka.admin import TopicAdmin
from penstock.kafka.clients import topic_name
from penstock.kafka.routes import RoutesTopic, StoredRoutes
from penstock.runtime.errors import UserError
from penstock.settings import Settings

MADE_OF_EVENTS = (CURSORS, ATTEMPTS, MATCHED, REPORTS)
GONE_SECONDS = 60.0
"""How long Kafka may take to remove topics."""


def adopt(settings: Settings) -> list[str]:
    """Removes what refers to the former Kafka; returns what it did, in lines. Raises UserError if a pipeline runs."""
    admin = topic_setup.connect(settings)
    with topic_setup.kafka_errors(settings):
        existing = admin.topics()
        if EVENTS in existing:  # what is made again has as many partitions as the log, whatever the settings say
            settings = settings.model_copy(update={"partitions": existing[EVENTS].partitions})
        topic_setup.create_missing(admin, settings, existing)
        if working := installation_state.instances(settings, "router", "dispatcher"):
            raise UserError(
                f"A pipeline is running: {', '.join(working)}.",
                "Stop every control and pipeline, and repeat the command.",
            )
        count = _begin_anew(settings)
        for name in MADE_OF_EVENTS:
            admin.delete([name])
            _await_gone(admin, name)
        topic_setup.create_missing(admin, settings, admin.topics())
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
    """The routes without start offsets, and the version that completes the change. Pure.

    Replays are not changed: their range refers to the former log.
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
            raise UserError(f"Kafka has not removed {name} yet.", "Repeat the command.")
        time.sleep(0.2)
