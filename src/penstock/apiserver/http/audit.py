"""Who did what, one line of JSON per request: events of audit.k8s.io/v1 at the level Metadata.

Bodies and the header with the token are never written, so that the log holds no Secret. A watch has two lines: when it
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

MOST_BYTES = 64 * 1024 * 1024
KEPT_FILES = 4
LONGEST_TEXT = 1024
"""Of an address or an agent: a log is no place to fill a disk from outside."""


class Lines(Protocol):
    """Where the lines go."""

    def write(self, line: bytes) -> None:
        """Takes one."""

    def close(self) -> None:
        """The end."""


class AuditFile:
    """A file for its owner's eyes; a full one makes room for the next, and the oldest goes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.chmod(0o600)
        self._handler = _PrivateFiles(path, maxBytes=MOST_BYTES, backupCount=KEPT_FILES, encoding="utf-8")

    def write(self, line: bytes) -> None:
        """Takes one."""
        self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, line.decode(), None, None))

    def close(self) -> None:
        """The end."""
        self._handler.close()


class _PrivateFiles(RotatingFileHandler):
    def doRollover(self) -> None:
        """The next file is as private."""
        super().doRollover()
        Path(self.baseFilename).chmod(0o600)


class Audited:
    """The application, with a line for every request to it."""

    def __init__(self, app: ASGIApp, lines: Lines) -> None:
        self._app, self._lines = app, lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Notes what was answered, and to whom."""
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
        "requestURI": _address(scope),
        "verb": info.verb,
        "user": _user(acting or user),
        "sourceIPs": [scope["client"][0]] if scope.get("client") else [],
        "userAgent": headers.get("user-agent", "")[:LONGEST_TEXT],
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": _moment(received),
        "stageTimestamp": _moment(now),
    }
    if acting is not None:
        event["impersonatedUser"] = _user(user)
    if info.resource:
        event["objectRef"] = _object(info)
    if user is not None:
        decision = "forbid" if code == 403 else "allow"
        event["annotations"] = {"authorization.k8s.io/decision": decision}
    return event


def _user(user: User | None) -> Obj:
    return {} if user is None else user.info()


def _object(info: RequestInfo) -> Obj:
    asked = info.access
    told: dict[str, Any] = {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": asked.group,
        "apiVersion": info.version,
        "subresource": asked.subresource,
    }
    return {key: value for key, value in told.items() if value}


def _address(scope: Scope) -> str:
    path, query = str(scope["path"]), scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}"[:LONGEST_TEXT] if query else path[:LONGEST_TEXT]


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
