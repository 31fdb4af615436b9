"""`verify()`: everything is read once, in an order in which nothing can be missed, and compared.

Cursors are read before attempts, because what a cursor counts as done has its attempts in the same transaction. Kafka
shows the partitions of a transaction one after the other, so events that look lost are checked again a moment later.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from penstock.contract import topics
from penstock.history.reader.database import Database
from penstock.history.schema.columns import ATTEMPTS, EVENTS, HistoryProblem
from penstock.history.schema.rows import Row
from penstock.kafka.ranges import RangeReader
from penstock.kafka.topic_ends import KafkaAway
from penstock.runtime.errors import UserError
from penstock.runtime.times import rfc3339
from penstock.settings import Settings
from penstock.verification.fates import Fate, Fates, LostRange, Standing, Try
from penstock.verification.matching import OWN_COLUMNS, AcceptedEvent, EventMatcher, micro
from penstock.verification.report import MissingEvent, RouteVerdict, VerifyReport, moment_of
from penstock.verification.routes import InForce, JudgedRoute, PublishedRoutes, Reported, chosen, judged
from penstock.verification.sources import KeptRecords, TopicReader, take_all

SLACK = timedelta(minutes=1)
"""By so much the clock that dates attempts may be behind the one that dates events."""
LOOK_AGAIN_SECONDS = 1.0

_BEGIN = datetime(1970, 1, 2, tzinfo=UTC)

Progress = Callable[[str, int], None]
"""Called with what is being read, and how many records of it have been."""


@dataclass(frozen=True)
class Question:
    """What is to be verified."""

    since: datetime
    until: datetime
    names: Sequence[tuple[str, str]] = ()
    """Kinds and names of routes; empty: all."""
    namespace: str | None = None
    """None: every one."""
    limit: int = 20
    """How many missing events are named at most."""


def verify(
    settings: Settings,
    question: Question,
    in_force: InForce,
    progress: Progress = lambda what, count: None,
    *,
    connect: Callable[[Settings], TopicReader] = RangeReader,
    pause: Callable[[float], None] = time.sleep,
) -> VerifyReport:
    """What became of every event that was accepted in that time. Raises UserError."""
    try:
        with (
            contextlib.closing(connect(settings)) as reader,
            tempfile.TemporaryDirectory(prefix="penstock-verify-") as folder,
            contextlib.closing(Database(folder=Path(folder))) as database,
        ):
            return _Verification(settings, question, reader, database, progress).report(in_force, pause)
    except KafkaAway as error:
        raise UserError(
            f"Kafka at {settings.bootstrap} is unreachable: {error}.",
            "The cursors of the routes are in Kafka only: start the stack, or check PENSTOCK_KAFKA.",
            exit_code=2,
        ) from error
    except HistoryProblem as problem:
        raise UserError(problem.what, problem.remedy, exit_code=2) from None


class _Verification:
    """What it takes to answer one question."""

    def __init__(
        self, settings: Settings, question: Question, reader: TopicReader, database: Database, progress: Progress
    ) -> None:
        self._settings, self._question, self._reader, self._progress = settings, question, reader, progress
        # Days of tables are those of UTC; there is nothing from before 1970, and dates end somewhere.
        self._since = max(question.since.astimezone(UTC), _BEGIN)
        self._until = max(question.until.astimezone(UTC), _BEGIN)
        self._database, self._fates = database, Fates(database)
        self._published, self._reported, self._standing = PublishedRoutes(), Reported(), Standing()

    def report(self, in_force: InForce, pause: Callable[[float], None]) -> VerifyReport:
        """The answer."""
        take_all(self._reader, topics.ROUTES, self._published.take)
        take_all(self._reader, topics.REPORTS, self._reported.take)
        matched = self._reader.retained(topics.MATCHED)
        take_all(self._reader, topics.CURSORS, self._standing.take)
        routes = chosen(self._published.snapshot, self._question.names, self._question.namespace)
        judging, remarks = judged(routes, self._published, self._reported, in_force, self._since)
        numbers = {one.route.uid: number for number, one in enumerate(judging)}
        events = KeptRecords(self._settings, self._reader, self._database, EVENTS)
        attempts = KeptRecords(self._settings, self._reader, self._database, ATTEMPTS)
        matcher = EventMatcher(judging, attempts.whole_since)
        self._match(matcher, events)
        self._read_attempts(numbers, attempts)
        self._fates.stand(*self._standing.rows(numbers, self._reported, matched), self._losses(numbers))
        counts = self._fates.judge()
        if any(found.get("lost") for found in counts.values()):
            pause(LOOK_AGAIN_SECONDS)
            self._add_tries(numbers, attempts.newer())
            counts = self._fates.judge()
        verdicts = [_verdict(number, one, matcher, counts) for number, one in enumerate(judging)]
        return VerifyReport(
            self._since,
            self._until,
            sum(matcher.accepted.values()),
            verdicts,
            self._missing(verdicts, events),
            (*remarks, *self._limits(events, attempts)),
        )

    # --- events ------------------------------------------------------------------------------------------------------

    def _match(self, matcher: EventMatcher, events: KeptRecords) -> None:
        count = 0
        statement, values = _events_of_table(matcher, self._since, self._until)
        for batch in self._database.batches(statement, values):
            columns = [column.to_pylist() for column in batch.columns]
            self._fates.add_due(matcher.due(_events_of_columns(columns, matcher.asks_data)))
            self._progress("events", count := count + batch.num_rows)
        begin, end = micro(self._since), micro(self._until)
        for rows in events.rest(begin // 1000):
            found = (matcher.of_row(row) for row in rows)
            self._fates.add_due(matcher.due(event for event in found if begin <= event.at < end))
            self._progress("events", count := count + len(rows))

    # --- attempts ----------------------------------------------------------------------------------------------------

    def _read_attempts(self, numbers: Mapping[str, int], attempts: KeptRecords) -> None:
        self._progress("attempts", 0)
        since = self._since - SLACK
        self._fates.copy_tries(self._counted(numbers), since)
        self._add_tries(numbers, attempts.rest(micro(since) // 1000))

    def _add_tries(self, numbers: Mapping[str, int], pieces: Iterable[list[Row]]) -> None:
        counted, count = self._counted(numbers), 0
        for rows in pieces:
            self._fates.add_tries(list(_tries(rows, counted)))
            self._progress("attempts", count := count + len(rows))

    def _counted(self, numbers: Mapping[str, int]) -> dict[str, tuple[int, bool]]:
        """By uid, the number of the route that its attempts count for, and whether it redrives what that gave up."""
        redrives = {uid: (numbers[of], True) for uid, of in self._published.redrives.items() if of in numbers}
        return {**redrives, **{uid: (number, False) for uid, number in numbers.items()}}

    def _losses(self, numbers: Mapping[str, int]) -> list[LostRange]:
        return [
            LostRange(numbers[loss.route], loss.partition, loss.first, loss.last)
            for loss in self._reported.losses
            if loss.route in numbers
        ]

    # --- the answer --------------------------------------------------------------------------------------------------

    def _missing(self, verdicts: Sequence[RouteVerdict], events: KeptRecords) -> list[MissingEvent]:
        found = self._fates.missing(self._question.limit)
        known = events.events_at({(partition, offset) for _, partition, offset, _ in found})
        return [
            MissingEvent(verdicts[number], fate, partition, offset, known.get((partition, offset)))
            for number, partition, offset, fate in found
        ]

    def _limits(self, events: KeptRecords, attempts: KeptRecords) -> Iterator[str]:
        """What limits the whole answer."""
        if events.files is None and attempts.files is None:
            yield "there is no history: only records in Kafka were checked"
        since, until = micro(self._since), micro(self._until)
        if (begin := max(events.whole_since.values(), default=0)) > since:
            whole = rfc3339(moment_of(min(begin, until)))
            yield f"some of the events are no longer kept: all of them are from {whole} on"
        if (begin := max(attempts.whole_since.values(), default=0)) > since:
            whole = rfc3339(moment_of(min(begin, until)))
            yield f"some of the attempts are no longer kept: events before {whole} are not verified in every partition"


def _verdict(
    number: int, judging: JudgedRoute, matcher: EventMatcher, counts: Mapping[int, Mapping[Fate, int]]
) -> RouteVerdict:
    route = judging.route
    return RouteVerdict(
        route.kind,
        route.namespace,
        route.name,
        matcher.accepted[route.target],
        counts.get(number, {}),
        matcher.unjudged[number],
        judging.remark,
        route.paused,
    )


def _events_of_table(matcher: EventMatcher, since: datetime, until: datetime) -> tuple[str, list[Any]]:
    """What is asked of the table, with no more than filters ask for: of a table of columns little is read then."""
    columns, values = [], []
    for name in matcher.names:
        if name in OWN_COLUMNS:
            columns.append(f'"{name}"')
        else:
            columns.append("extensions[?]")
            values.append(name)
    columns += ["data"] if matcher.asks_data else []
    selected = ", ".join(("partition", '"offset"', "epoch_us(arrival)", "target", *columns))
    return (
        f"select {selected} from events where day between ? and ? and arrival >= ? and arrival < ? "
        "and list_contains(?, target)",
        [*values, since.date(), until.date(), since, until, matcher.targets],
    )


def _events_of_columns(columns: Sequence[Sequence[Any]], has_data: bool) -> Iterator[AcceptedEvent]:
    partition, offset, at, target, *others = columns
    data = others.pop() if has_data else [None] * len(partition)
    values = zip(*others, strict=True) if others else ((),) * len(partition)
    return map(AcceptedEvent, partition, offset, at, target, values, data)


def _tries(rows: Iterable[Row], counted: Mapping[str, tuple[int, bool]]) -> Iterator[Try]:
    for row in rows:
        if (route := counted.get(row[_ROUTE])) is not None:
            yield Try(route[0], row[_PARTITION], row[_OFFSET], row[_STAGE], row[_RESULT], route[1])


_ROUTE, _PARTITION, _OFFSET, _STAGE, _RESULT = (
    ATTEMPTS.names.index(name) for name in ("route", "partition", "offset", "stage", "result")
)
