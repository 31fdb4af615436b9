"""The time as Kubernetes objects carry it."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(now: datetime | None = None) -> str:
    """RFC 3339 in UTC, to the second."""
    return (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
