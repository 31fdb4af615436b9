"""The audit log: one line of JSON per request, events of audit.k8s.io/v1 at the level Metadata.

Bodies and the header with the token are never written, so the log contains no Secrets. A watch has two lines: when it
starts and when it ends.
"""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.apiserver.access.identity import User
from penstock.apiserver.documents import encode
from penstock.apiserver.http.authorization import OPEN_PATHS
from penstock.apiserver.http.request_info import RequestInfo, request_info
from penstock.kube.kinds import Obj

MAX_FILE_BYTES = 64 * 1024 * 1024
KEPT_FILES = 4
MAX_TEXT = 1024
"""Of a URI or a user agent, so that clients cannot fill the disk with long ones."""


class Lines(Protocol):
    """The destination of the lines."""

    def write(self, line: bytes) -> None:
        """Writes a line."""

    def close(self) -> None:
        """Closes the destination."""


class AuditFile:
    """A file that only its owner can read; it is rotated when it is full, and the oldest one is deleted."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.chmod(0o600)
        self._handler = _PrivateFiles(path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8")

    def write(self, line: bytes) -> None:
        """Writes a line."""
        self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, line.decode(), None, None))

    def close(self) -> None:
        """Closes the destination."""
        self._handler.close()


class _PrivateFiles(RotatingFileHandler):
    def doRollover(self) -> None:
        """Makes the new file private too."""
        super().doRollover()
        Path(self.baseFilename).chmod(0o600)


class AuditMiddleware:
    """ASGI middleware that writes a line for every request."""

    def __init__(self, app: ASGIApp, lines: Lines) -> None:
        self._app, self._lines = app, lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request and writes its audit events."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        received, audit_id, code = datetime.now(UTC), str(uuid.uuid4()), 0
        info = request_info(scope)

        def note(stage: str) -> None:
            self._lines.write(
                encode(audit_event(scope, info, audit_id, stage, code=code, received=received, now=datetime.now(UTC)))
            )

        async def noting(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                if info.verb == "watch":
                    note("ResponseStarted")
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            note("ResponseComplete")


def audit_event(
    scope: Scope, info: RequestInfo, audit_id: str, stage: str, *, code: int, received: datetime, now: datetime
) -> Obj:
    """One event of the log."""
    state, headers = scope.get("state", {}), Headers(scope=scope)
    user, acting = state.get("user"), state.get("acting")
    event: Obj = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": audit_id,
        "stage": stage,
        "requestURI": _request_uri(scope),
        "verb": info.verb,
        "user": _user(acting or user),
        "sourceIPs": [scope["client"][0]] if scope.get("client") else [],
        "userAgent": headers.get("user-agent", "")[:MAX_TEXT],
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": _moment(received),
        "stageTimestamp": _moment(now),
    }
    if acting is not None:
        event["impersonatedUser"] = _user(user)
    if info.resource:
        event["objectRef"] = _object_reference(info)
    if user is not None:
        decision = "forbid" if code == 403 else "allow"
        event["annotations"] = {"authorization.k8s.io/decision": decision}
    return event


def _user(user: User | None) -> Obj:
    return {} if user is None else user.info()


def _object_reference(info: RequestInfo) -> Obj:
    access = info.access
    fields: dict[str, Any] = {
        "resource": access.resource,
        "namespace": access.namespace,
        "name": access.name,
        "apiGroup": access.group,
        "apiVersion": info.version,
        "subresource": access.subresource,
    }
    return {key: value for key, value in fields.items() if value}


def _request_uri(scope: Scope) -> str:
    path, query = str(scope["path"]), scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}"[:MAX_TEXT] if query else path[:MAX_TEXT]


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
