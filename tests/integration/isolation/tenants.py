"""Users of one namespace as clients of the API, what they try to reach in another one, and a listener that records."""

from __future__ import annotations

import base64
import functools
import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from tests.running import Stack
from tests.waiting import eventually

BANK, SHOP = "bank", "shop"
"""The namespace that is to be protected, and the one that the attacker's users are bound in."""
PRIVATE = "only-for-the-bank"
"""Part of everything in `bank` that has content: it must never come to a user of `shop`."""
MADE_BY_SHOP = "made-by-shop"
"""Part of everything that users of `shop` try to write in `bank`: it must never be found there."""

Obj = dict[str, Any]


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    body: str

    @property
    def object(self) -> Obj:
        """The body, which is JSON."""
        found: Obj = json.loads(self.body)
        return found


class Caller:
    """A client of the API that sends paths exactly as they are given."""

    def __init__(self, stack: Stack, token: str) -> None:
        self.token = token
        config = yaml.safe_load(stack.kubeconfig.read_text())
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self._context, self._port = ssl.create_default_context(cadata=authority), stack.settings.api_port
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=120)

    def call(self, method: str, path: str, body: Any = None, media: str = "application/json", **headers: str) -> Answer:
        """Sends a request. One that is refused for its rate is sent again."""
        raw = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        sent = {"Content-Type": media, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"

        def answered() -> Answer | None:
            try:
                self._connection.request(method, path, raw, sent)
                response = self._connection.getresponse()
                found = Answer(response.status, response.read().decode(errors="replace"))
            except (http.client.HTTPException, OSError):
                # The server ends connections that were idle, and those whose request it did not read to the end.
                self._connection.close()
                self._connection = self._connect()
                return None
            return None if found.status == 429 else found

        answer: Answer = eventually(answered)
        return answer

    def close(self) -> None:
        """Ends its connection."""
        self._connection.close()

    def get(self, path: str) -> Obj:
        """An object or list. Fails where there is none."""
        answer = self.call("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.object

    def create(self, obj: Obj, namespace: str = SHOP, **headers: str) -> Answer:
        """Creates an object in a namespace."""
        return self.call("POST", path_of(obj, namespace), obj, **headers)

    def made(self, obj: Obj, namespace: str = SHOP) -> Obj:
        """Creates an object that has to be accepted."""
        answer = self.create(obj, namespace)
        assert answer.status == 201, answer
        return answer.object

    def patch(self, path: str, change: Any) -> Answer:
        """A JSON merge patch."""
        return self.call("PATCH", path, change, "application/merge-patch+json")


PLURALS = {"EventPolicy": "eventpolicies", "RequestReply": "requestreplies"}


def path_of(obj: Obj, namespace: str, name: str = "") -> str:
    """The path of a collection, or of an object in it."""
    version, plural = obj["apiVersion"], PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
    root = "/apis" if "/" in version else "/api"
    return f"{root}/{version}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True)
class Served:
    """A resource or subresource that the API's discovery names."""

    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]

    def path(self, namespace: str = "", name: str = "") -> str:
        """Its path: of the collection without a name."""
        root = ("/apis/" if "/" in self.version else "/api/") + self.version
        resource, _, subresource = self.name.partition("/")
        parts = [root, *(("namespaces", namespace) if namespace else ()), resource, name, subresource]
        return "/".join(part for part in parts if part)


@functools.cache
def served(admin: Caller) -> tuple[Served, ...]:
    """Everything that discovery names."""
    versions = list(admin.get("/api")["versions"])
    versions += [version["groupVersion"] for group in admin.get("/apis")["groups"] for version in group["versions"]]
    return tuple(
        Served(version, one["name"], one["kind"], one["namespaced"], tuple(one["verbs"]))
        for version in versions
        for one in admin.get(("/apis/" if "/" in version else "/api/") + version)["resources"]
    )


def objects_in(admin: Caller, namespace: str) -> dict[tuple[str, str], Obj]:
    """All objects of a namespace by resource and name, without those that the stack itself writes all the time."""
    return {
        (resource.name, one["metadata"]["name"]): one
        for resource in served(admin)
        if resource.namespaced and "list" in resource.verbs and resource.name not in ("events", "leases")
        for one in admin.get(resource.path(namespace))["items"]
    }


class Received(NamedTuple):
    """A request that a listener has got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str

    def __contains__(self, text: object) -> bool:
        return str(text) in f"{self.path}\n{dict(self.headers)}\n{self.body}"


class Listener:
    """An HTTP server of a user: it records every request, and answers 200 with nothing, or as it is told to."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.received: list[Received] = []
        self.answers: dict[str, tuple[dict[str, str], bytes]] = {}
        """By path: what is answered, with which headers."""
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode(errors="replace")
                headers = {name.lower(): value for name, value in self.headers.items()}
                listener.received.append(Received(self.command, self.path, headers, body))
                headers, content = listener.answers.get(self.path, ({}, b""))
                self.send_response(200)
                for name, value in {**headers, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_POST = do_HEAD = do_PUT = answer

            def log_message(self, *_: object) -> None:
                """What came is recorded."""

        self._server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def at(self, path: str) -> list[Received]:
        """What came to a path."""
        return [one for one in self.received if one.path.partition("?")[0] == path]

    def close(self) -> None:
        """Listens no more."""
        self._server.shutdown()
        self._server.server_close()
