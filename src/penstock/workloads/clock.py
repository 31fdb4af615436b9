"""The time as Kubernetes and Go write it."""

from __future__ import annotations

import time


def rfc3339(nanoseconds: int | None = None) -> str:
    """Now, or the given time since 1970, in whole seconds: the form of Kubernetes' own timestamps."""
    value = time.time_ns() if nanoseconds is None else nanoseconds
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(value // 1_000_000_000))


def rfc3339_nano(nanoseconds: int | None = None) -> str:
    """Now, or the given time since 1970, to the nanosecond without trailing zeros: the form of Go's JSON."""
    value = time.time_ns() if nanoseconds is None else nanoseconds
    fraction = f"{value % 1_000_000_000:09d}".rstrip("0")
    return rfc3339(value)[:-1] + (f".{fraction}" if fraction else "") + "Z"
