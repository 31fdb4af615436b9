"""Where routes stand in each partition, by the records of `penstock.cursors`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from penstock.dispatcher.cursors import keys
from penstock.dispatcher.cursors.cursor_store import Restored, understand
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import Retained
from penstock.verification.fates import CursorRow, Outstanding
from penstock.verification.reported import Reported


class Standing:
    """What the topic holds."""

    def __init__(self) -> None:
        self._values: dict[int, dict[str, bytes]] = {}

    def take(self, records: Collection[LogRecord]) -> None:
        """Takes records in the order of each partition."""
        for record in records:
            key = (record.key or b"").decode("utf-8", "replace")
            if keys.parse_payload(key) is not None:
                continue  # what a delivery takes along: it may be large, and says nothing here
            kept = self._values.setdefault(record.partition, {})
            if record.value is None:
                kept.pop(key, None)
            else:
                kept[key] = record.value

    def rows(
        self, numbers: Mapping[str, int], reported: Reported, matched: Mapping[int, Retained]
    ) -> tuple[list[CursorRow], list[Outstanding]]:
        """Of each of these routes (uid to number), in each partition. `matched` is what `penstock.matched` held before
        the cursors were read."""
        restored = {partition: understand(self._values.get(partition, {}), partition, set()) for partition in matched}
        cursors = []
        for partition, found in restored.items():
            passed = _passed(found, matched[partition].end)
            for uid, number in numbers.items():
                cursor, served = found.cursors.get(uid), reported.served_before(uid, partition)
                next_offset, detached = (0, False) if cursor is None else (cursor.next, not cursor.attached)
                cursors.append(CursorRow(number, partition, next_offset, detached, min(passed, served)))
        return cursors, list(_outstanding(numbers, restored))


def _passed(found: Restored, matched_end: int) -> int:
    """Before which offset everything has been given to attached routes that the router found for them.

    A tail that has read all there was when it was last looked at has passed what two generations of the router wrote
    at once, where origins fall back. The event of its last record may have more routes in the next one.
    """
    return 0 if found.tail is None or found.tail.next < matched_end else max(0, found.tail.origin)


def _outstanding(numbers: Mapping[str, int], restored: Mapping[int, Restored]) -> Iterator[Outstanding]:
    for partition, found in restored.items():
        for uid, cursor in found.cursors.items():
            if uid in numbers:
                yield from (Outstanding(numbers[uid], partition, origin) for origin in cursor.outstanding)
