"""The certificate of the API: of the data folder's own authority, and with the names that clients have for the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.tls import own

SPAN = own.Span(lasts=timedelta(days=365), renewed_before=timedelta(days=30))
_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")


def ensure(folder: Path, *hosts: str) -> None:
    """Makes what is missing or does not fit any more: `ca.crt`, `ca.key`, `server.crt`, `server.key`."""
    own.server(folder, "server", (*_HOSTS, *hosts), SPAN, datetime.now(UTC))
