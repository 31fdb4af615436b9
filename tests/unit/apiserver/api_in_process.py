"""The whole API server without a socket: requests go to its application, the objects lie in a folder of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from penstock.apiserver.access import identity
from penstock.apiserver.http.watching import Watches
from penstock.apiserver.service import assembled
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

Answer = tuple[int, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ApiInProcess:
    """A client of the application; the administrator unless told otherwise."""

    def __init__(self, app: ASGIApp, tokens: dict[str, str]) -> None:
        self.app, self.tokens = app, tokens

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        user: str = "",
        groups: tuple[str, ...] = (),
        media: str = "application/json",
    ) -> Answer:
        """Status and decoded body."""
        secret = self.tokens[identity.ADMIN] if token is None else token
        headers = [(b"content-type", media.encode()), (b"authorization", f"Bearer {secret}".encode())]
        headers += [(b"impersonate-user", user.encode())] if user else []
        headers += [(b"impersonate-group", group.encode()) for group in groups]
        place, _, query = path.partition("?")
        sent: list[Message] = []
        waiting = [b"" if body is None else json.dumps(body).encode()]

        async def receive() -> Message:
            if not waiting:
                await asyncio.Event().wait()  # the client stays
            return {"type": "http.request", "body": waiting.pop()}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": place,
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "server": ("127.0.0.1", 443),
            "client": ("127.0.0.1", 1),
            "scheme": "https",
        }
        await self.app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent)
        # A watch has a line for each event.
        return sent[0]["status"], json.loads(content.partition(b"\n")[0] if "watch=true" in query else content)

    async def made(self, path: str, body: Any, **more: Any) -> Any:
        """What was created."""
        status, answer = await self.call("POST", path, body, **more)
        assert status == 201, answer
        return answer

    async def may(self, verb: str, group: str, resource: str, *, user: str, **more: str) -> bool:
        """What a SubjectAccessReview says."""
        attributes = {"verb": verb, "group": group, "resource": resource, **more}
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        answer = await self.made("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])


@asynccontextmanager
async def api_in_process(folder: Path) -> AsyncIterator[ApiInProcess]:
    """The server over a folder, until the end of the block."""
    _, tokens = identity.load_component_tokens(folder / "pki" / "tokens.json")
    async with assembled(Settings(data_dir=folder), TaskScope(), Watches()) as app:
        # What goes on behind it begins: reads alone would never let it.
        await asyncio.sleep(0)
        yield ApiInProcess(app, tokens)
