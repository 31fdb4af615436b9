"""The ticks of PingSources: which are due, which were missed while no process ran, and which are stored.

A tick that is at most a minute late is still sent, so that none is lost by a restart. Older ones are missed: a job for
noon that starts at three does more harm than good. They are counted and reported.

`TickNotes` stores what must survive a restart in a small SQLite file: up to which time the ticks of each source are
settled, and which wait for their sink. A tick is stored before its event is sent and deleted after the sink has
accepted it, so none is forgotten; after a crash in between it is sent again, with the same id.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from penstock.resources.schedules import CronSchedule
from penstock.runtime.times import rfc3339_of

LATE_SECONDS = 60
MOST_COUNTED = 1000


@dataclass(frozen=True)
class Missed:
    """Ticks without an event."""

    count: int
    first: int
    last: int
    why: str = "nothing ran then"

    def __str__(self) -> str:
        if self.count == 1:
            return f"the tick of {rfc3339_of(self.first)} was missed: {self.why}"
        number = f"more than {MOST_COUNTED}" if self.count > MOST_COUNTED else str(self.count)
        span = f"from {rfc3339_of(self.first)} to {rfc3339_of(self.last)}"
        return f"{number} ticks {span} were missed: {self.why}"


@dataclass(frozen=True)
class Due:
    """The ticks of a span of time: those to send, and those that were missed."""

    fire: tuple[int, ...]
    missed: Missed | None = None


def due_between(schedule: CronSchedule, last: int, now: int) -> Due:
    """The ticks after `last` until `now`."""
    limit = now - LATE_SECONDS
    missed: list[int] = []
    for tick in schedule.after(last):
        if tick >= limit or len(missed) > MOST_COUNTED:
            break
        missed.append(tick)
    fire = []
    for tick in schedule.after(max(last, limit - 1)):
        if tick > now:
            break
        fire.append(tick)
    if not missed:
        return Due(tuple(fire))
    until = limit if len(missed) > MOST_COUNTED else missed[-1]
    return Due(tuple(fire), Missed(len(missed), missed[0], until))


_SCHEMA = """
CREATE TABLE IF NOT EXISTS sources (uid TEXT PRIMARY KEY, schedule TEXT NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (uid TEXT, tick INTEGER, PRIMARY KEY (uid, tick)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Noted:
    """The stored state of a source."""

    schedule: str
    last: int
    waiting: tuple[int, ...] = ()


@dataclass
class Changes:
    """Changes to store in one transaction."""

    settled: dict[str, Noted] = field(default_factory=dict)
    """By source: its ticks until `last` are settled, or among those that wait from now on."""
    accepted: list[tuple[str, int]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.settled or self.accepted or self.forgotten)


class TickNotes:
    """The file; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def load(self) -> dict[str, Noted]:
        """The state of all sources, by uid."""
        waiting: dict[str, list[int]] = {}
        for uid, tick in self._db.execute("SELECT uid, tick FROM waiting ORDER BY uid, tick"):
            waiting.setdefault(uid, []).append(tick)
        rows = self._db.execute("SELECT uid, schedule, last FROM sources")
        return {uid: Noted(schedule, last, tuple(waiting.get(uid, ()))) for uid, schedule, last in rows}

    def write(self, changes: Changes) -> None:
        """Stores all changes or none."""
        with self._db:
            self._db.executemany(
                "INSERT INTO sources VALUES (?, ?, ?) ON CONFLICT (uid) DO UPDATE "
                "SET schedule = excluded.schedule, last = excluded.last",
                [(uid, noted.schedule, noted.last) for uid, noted in changes.settled.items()],
            )
            ticks = [(uid, tick) for uid, noted in changes.settled.items() for tick in noted.waiting]
            self._db.executemany("INSERT OR IGNORE INTO waiting VALUES (?, ?)", ticks)
            self._db.executemany("DELETE FROM waiting WHERE uid = ? AND tick = ?", changes.accepted)
            gone = [(uid,) for uid in changes.forgotten]
            self._db.executemany("DELETE FROM sources WHERE uid = ?", gone)
            self._db.executemany("DELETE FROM waiting WHERE uid = ?", gone)
