"""Which offsets are written next, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.kafka.topic_ends import Retained


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
