"""Times and time ranges as options of commands and fields of pages give them."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.runtime.errors import UserError
from penstock.runtime.times import EXPECTED, moment_of


def moment(text: str, now: datetime, name: str = "--since") -> datetime:
    """The time that an option or field of this name gives. Raises UserError."""
    found = moment_of(text.strip(), now.timestamp())
    if found is None:
        raise UserError(f"Invalid time {text!r} for {name}.", f"{EXPECTED[0].upper()}{EXPECTED[1:]}.", exit_code=2)
    return datetime.fromtimestamp(found, UTC)


def window(
    since: str | None,
    until: str | None,
    names: tuple[str, str] = ("--since", "--until"),
    *,
    now: datetime | None = None,
) -> tuple[datetime | None, datetime | None]:
    """Both ends of a time range. Raises UserError if it begins in the future or ends before it begins."""
    now = now or datetime.now(UTC)
    begin = None if since is None else moment(since, now, names[0])
    end = None if until is None else moment(until, now, names[1])
    if begin is not None and begin > now:
        raise UserError(f"{names[0]} {since} is in the future.", exit_code=2)
    if begin is not None and end is not None and end <= begin:
        raise UserError(f"{names[1]} {until} is not after {names[0]} {since}.", exit_code=2)
    return begin, end
