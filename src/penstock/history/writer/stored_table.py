"""A Delta table that is appended to: rows, and the offsets that they reach to, in one commit.

Delta keeps, for ids that an application chooses, a version each, in its log and in its checkpoints; they are meant for
exactly this. There is one id for each partition. A commit has read the versions that it raises, so that of two writers
who began at the same offsets only one commits, whichever was there first.

There are two ways to write the same table, and both may take turns with it: `arrow_table` in the process itself, for a
folder of this machine, and `spark_table` for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import NamedTuple, Protocol

from penstock.history.reader.tables import FileSize
from penstock.kafka.topic_ends import Retained

PROPERTIES = {
    "delta.enableDeletionVectors": "false",  # readers that only list files would see rows that are gone
    "delta.dataSkippingNumIndexedCols": "8",
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 hours",
}


class Conflict(RuntimeError):
    """Another writer has written the same records."""


class Commit(Protocol):
    """Rows and positions that appear together, or not at all."""

    @property
    def positions(self) -> Mapping[str, int | None]:
        """What the table says of the ids that it was begun with; None where it never heard of them."""

    def write(self, ranges: Mapping[int, Range]) -> None:
        """Writes the records between these offsets of the table's topic to files, which are not visible yet."""

    def finish(self, positions: Mapping[str, int]) -> None:
        """Makes what was written part of the table, with the positions after it. Raises Conflict."""


class StoredTable(Protocol):
    """One table."""

    def ensure(self) -> bool:
        """Makes the table where there is none, and gives it the columns that it lacks; whether it was made.

        Raises HistoryProblem."""

    def begin(self, ids: Iterable[str]) -> Commit:
        """A commit that holds if the versions of these ids do not change in the meantime."""

    def files(self) -> list[FileSize]:
        """The files of its newest version."""

    def remove_before(self, moment: datetime) -> None:
        """Removes the rows from before a moment."""

    def compact(self, day: date) -> None:
        """Puts the small files of a day together."""

    def vacuum(self, hours: int) -> None:
        """Removes files that no version has named for so long, also those of writers that were killed."""


class Range(NamedTuple):
    """Offsets of one partition, from `first` up to, not including, `end`."""

    first: int
    end: int


class LostRecords(NamedTuple):
    """Records that retention removed before they were written."""

    partition: int
    first: int
    end: int


class Next(NamedTuple):
    """What is to be written in one commit."""

    ranges: dict[int, Range]
    lost: list[LostRecords]
    rest: int
    """Records that remain for the commits after it."""

    @property
    def records(self) -> int:
        """How many offsets there are."""
        return sum(one.end - one.first for one in self.ranges.values())


def next_ranges(retained: Mapping[int, Retained], positions: Mapping[int, int | None], most: int) -> Next:
    """From the positions to the ends, at most so many records, the same share of what is there from each partition.

    A partition that the table has never heard of begins with the oldest record, and nothing of it counts as lost.
    """
    lost, whole = [], {}
    for partition, kept in retained.items():
        position = positions.get(partition)
        if position is not None and position < kept.first:
            lost.append(LostRecords(partition, position, kept.first))
        first = max(kept.first, position or 0)
        if first < kept.end:
            whole[partition] = Range(first, kept.end)
    total = sum(one.end - one.first for one in whole.values())
    share = min(1.0, most / total) if total else 1.0
    ranges = {
        partition: Range(one.first, one.first + max(1, int((one.end - one.first) * share)))
        for partition, one in whole.items()
    }
    taken = sum(one.end - one.first for one in ranges.values())
    return Next(ranges, lost, total - taken)


def offsets_json(topic: str, ranges: Mapping[int, Range], end: bool) -> dict[str, dict[str, int]]:
    """Offsets as Spark's Kafka source takes them."""
    return {topic: {str(partition): one.end if end else one.first for partition, one in ranges.items()}}
