"""When a PingSource fires: cron lines as Knative's scheduler reads them.

The language and its complaints are those of Knative's parser, so that a line means the same here as there: seconds are
optional, `?` is `*`, a step makes a star a restriction, Sunday is 0 and never 7. Finding the next moment is cronsim's
trade; it gets the line as plain lists of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_DAYS = "sun mon tue wed thu fri sat"

_DESCRIPTORS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_ZONES = ("TZ=", "CRON_TZ=")

REMEMBERED = 4096


class BadSchedule(ValueError):
    """The line cannot be read, or never fires; the text says why."""


class BadLocation(BadSchedule):
    """The line is for a time zone that there is not."""


@dataclass(frozen=True)
class _Field:
    lowest: int
    highest: int
    names: Mapping[str, int]

    @classmethod
    def of(cls, lowest: int, highest: int, names: str = "") -> _Field:
        return cls(lowest, highest, {name: lowest + number for number, name in enumerate(names.split())})


_FIELDS = (
    _Field.of(0, 59),
    _Field.of(0, 59),
    _Field.of(0, 23),
    _Field.of(1, 31),
    _Field.of(1, 12, _MONTHS),
    _Field.of(0, 6, _DAYS),
)


@dataclass(frozen=True)
class CronSchedule:
    """The moments of a cron line, in whole seconds since 1970."""

    line: str
    """Six fields, each `*` or a list of numbers."""
    zone: tzinfo

    def next_after(self, second: int) -> int | None:
        """The first moment after that second; None: there is none within a lifetime."""
        return next(self.after(second), None)

    def after(self, second: int) -> Iterator[int]:
        """All moments after that second, in order."""
        try:
            for moment in CronSim(self.line, datetime.fromtimestamp(second, self.zone)):
                yield int(moment.timestamp())
        except CronSimError:
            # A day that none of the months has.
            return


@lru_cache(REMEMBERED)
def parse(line: str, timezone: str = "") -> CronSchedule:
    """The schedule of `spec.schedule` and `spec.timezone`. Raises BadSchedule, BadLocation."""
    zone: tzinfo = UTC
    if timezone:
        line = f"CRON_TZ={timezone} {line}"
    if not line:
        raise BadSchedule("empty spec string")
    if line.startswith(_ZONES):
        name, _, line = line.partition(" ")
        zone, line = _zone(name.partition("=")[2]), line.strip()
    if line.startswith("@"):
        fields = _described(line).split()
    else:
        fields = line.split()
        if len(fields) not in (5, 6):
            raise BadSchedule(f"expected 5 to 6 fields, found {len(fields)}: [{' '.join(fields)}]")
    if len(fields) == 5:
        fields = ["0", *fields]
    return CronSchedule(" ".join(_canonical(text, field) for text, field in zip(fields, _FIELDS, strict=True)), zone)


def check_fires(schedule: CronSchedule, now: int) -> None:
    """Raises BadSchedule where the line never fires, such as on February 30."""
    if schedule.next_after(now) is None:
        raise BadSchedule("schedule never fires")


def _described(line: str) -> str:
    if line not in _DESCRIPTORS:
        raise BadSchedule(f"unrecognized descriptor: {line}")
    return _DESCRIPTORS[line]


def _zone(name: str) -> tzinfo:
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise BadLocation(f"provided bad location {name}: unknown time zone {name}") from error


def _canonical(text: str, field: _Field) -> str:
    """The field as `*` or as a list of numbers."""
    numbers: set[int] = set()
    for expression in text.split(","):
        if expression:
            found, star = _range(expression, field)
            if star:
                return "*"
            numbers |= found
    if not numbers:
        raise BadSchedule("schedule never fires")
    return ",".join(map(str, sorted(numbers)))


def _range(expression: str, field: _Field) -> tuple[set[int], bool]:
    """The numbers of `number`, `low-high`, `*` or `?`, each with or without `/step`; and whether it is a plain star."""
    span, *steps = expression.split("/")
    low, *highs = span.split("-")
    star = low in ("*", "?")
    if star:
        start, end = field.lowest, field.highest
    else:
        start = _number(low, field.names)
        if len(highs) > 1:
            raise BadSchedule(f"too many hyphens: {expression}")
        end = _number(highs[0], field.names) if highs else start
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {expression}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not highs:
        end = field.highest
    _check_range(start, end, step, field, expression)
    return set(range(start, end + 1, step)), star and step == 1


def _check_range(start: int, end: int, step: int, field: _Field, expression: str) -> None:
    if start < field.lowest:
        raise BadSchedule(f"beginning of range ({start}) below minimum ({field.lowest}): {expression}")
    if end > field.highest:
        raise BadSchedule(f"end of range ({end}) above maximum ({field.highest}): {expression}")
    if start > end:
        raise BadSchedule(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise BadSchedule(f"step of range should be a positive number: {expression}")


def _number(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(digits) > 18:
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    number = int(text)
    if number < 0:
        raise BadSchedule(f"negative number ({number}) not allowed: {text}")
    return number
