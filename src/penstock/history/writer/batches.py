"""One batch: from the table's own positions to where Kafka ends now, written and committed together.

The same for a process that runs once and for one that stays: calling `write` again continues where the
table ends. If it is killed at any moment, the files that it wrote belong to no version of the table and are
removed some day; the next batch writes their records again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from penstock.history.schema.columns import Table, TableName
from penstock.history.writer.stored_table import Commit, Conflict, Next, StoredTable, next_ranges
from penstock.kafka.topic_ends import Retained

MOST_RECORDS = 100_000
"""Records of one commit, which are written again after a crash. At full speed that takes about 5 seconds."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Written:
    """What a batch did."""

    table: TableName
    records: int
    """Offsets that it covered; markers among them have no rows."""
    positions: dict[int, int]
    rest: int
    """Records that were there already and remain for the next batch."""
    lost: int
    seconds: float


class Batches:
    """Writes one table, batch by batch."""

    def __init__(
        self,
        stored: StoredTable,
        table: Table,
        *,
        most: int = MOST_RECORDS,
        before_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._stored, self._table, self._most, self._before_commit = stored, table, most, before_commit

    def write(self, retained: Mapping[int, Retained]) -> Written | None:
        """Writes what the table lacks of what Kafka holds; None where there is nothing, or another has written it."""
        begun = time.monotonic()
        ids = {partition: self._table.position(partition) for partition in retained}
        commit = self._stored.begin(ids.values())
        known = {partition: commit.positions[one] for partition, one in ids.items()}
        wanted = next_ranges(retained, known, self._most)
        gaps: dict[str, int] = {}
        if wanted.lost:
            # Seldom, so that the notes of former gaps are asked for only here.
            notes = [one for partition in retained for one in self._table.gaps(partition)]
            commit = self._stored.begin([*ids.values(), *notes])
            known = {partition: commit.positions[one] for partition, one in ids.items()}
            wanted = next_ranges(retained, known, self._most)
            gaps = {self._note(commit, one.partition): one.first for one in wanted.lost}
        self._tell_loss(wanted)
        if not wanted.ranges:
            return None
        commit.write(wanted.ranges)
        self._before_commit()
        positions = {partition: one.end for partition, one in wanted.ranges.items()}
        try:
            commit.finish({ids[partition]: end for partition, end in positions.items()} | gaps)
        except Conflict as error:
            log.warning(
                "another writer was faster; nothing was written twice", table=self._table.name, error=str(error)
            )
            return None
        known_now = {partition: end for partition, end in known.items() if end is not None} | positions
        lost = sum(one.end - one.first for one in wanted.lost)
        seconds = time.monotonic() - begun
        return Written(self._table.name, wanted.records, known_now, wanted.rest, lost, seconds)

    def _note(self, commit: Commit, partition: int) -> str:
        """Where a gap is noted: in place of the oldest one where there are as many as are remembered."""
        return min(self._table.gaps(partition), key=lambda one: -1 if (at := commit.positions[one]) is None else at)

    def _tell_loss(self, wanted: Next) -> None:
        for one in wanted.lost:
            log.error(
                "records were removed from Kafka before they were written to the history",
                table=self._table.name,
                partition=one.partition,
                first=one.first,
                last=one.end - 1,
            )
