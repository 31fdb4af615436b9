"""What the conformance tests act with: objects through the Kubernetes API, events over HTTP, scripted sinks."""

from __future__ import annotations

import http.client
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod, Service
from lightkube.resources.rbac_authorization_v1 import Role, RoleBinding
from lightkube.types import PatchType

from tests.running import Stack
from tests.waiting import eventually

Manifest = dict[str, Any]

_MESSAGING, _EVENTING = ("messaging.knative.dev", "v1"), ("eventing.knative.dev", "v1")
KINDS: dict[str, Any] = {
    "Namespace": Namespace,
    "Role": Role,
    "RoleBinding": RoleBinding,
    "Pod": Pod,
    "Service": Service,
    "ConfigMap": ConfigMap,
    "CustomResourceDefinition": CustomResourceDefinition,
    "Channel": create_namespaced_resource(*_MESSAGING, "Channel", "channels"),
    "InMemoryChannel": create_namespaced_resource(*_MESSAGING, "InMemoryChannel", "inmemorychannels"),
    "Subscription": create_namespaced_resource(*_MESSAGING, "Subscription", "subscriptions"),
    "Broker": create_namespaced_resource(*_EVENTING, "Broker", "brokers"),
    "Trigger": create_namespaced_resource(*_EVENTING, "Trigger", "triggers"),
}
READY_SECONDS = 120.0
QUIET_SECONDS = 1.0
"""How long nothing must come before a test believes that nothing comes."""


@dataclass(frozen=True)
class Answer:
    """What a sink answers."""

    status: int = 202
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    after: float = 0.0
    when: threading.Event | None = None
    """What it waits for before it answers; not for ever."""


def reply(event_type: str, status: int = 200, body: bytes = b'{"reply":true}') -> Answer:
    """An answer that is an event in binary mode."""
    event = {"specversion": "1.0", "id": "reply-1", "source": "/replier", "type": event_type}
    headers = tuple((f"ce-{name}", value) for name, value in event.items())
    return Answer(status, (*headers, ("content-type", "application/json")), body)


@dataclass(frozen=True)
class Request:
    """What a sink got."""

    at: float
    method: str
    headers: dict[str, str]
    body: bytes

    def attribute(self, name: str) -> str | None:
        """A CloudEvents attribute of a request in binary mode."""
        return self.headers.get("content-type" if name == "datacontenttype" else f"ce-{name}")


@dataclass
class Sink:
    """One path of the server."""

    url: str
    answers: list[Answer]
    requests: list[Request] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def got(self, ident: str) -> list[Request]:
        """The requests that carried the event with this id."""
        return [request for request in list(self.requests) if request.attribute("id") == ident]

    def wait(self, ident: str, count: int = 1, seconds: float = 60.0) -> list[Request]:
        """The requests with this event, once there are `count` of them."""
        eventually(lambda: len(self.got(ident)) >= count or pytest_saw(self, ident), seconds)
        return self.got(ident)

    def exactly(self, ident: str, count: int, quiet: float = QUIET_SECONDS) -> list[Request]:
        """The requests with this event, once there are `count` and no more come for a while."""
        if count:
            self.wait(ident, count)
        time.sleep(quiet)
        found = self.got(ident)
        assert len(found) == count, f"{len(found)} deliveries of event {ident} in place of {count}"
        return found


def pytest_saw(sink: Sink, ident: str) -> bool:
    """Fails with what was seen, for the message of a wait in vain."""
    raise AssertionError(f"{len(sink.got(ident))} requests with event {ident} of {len(sink.requests)} at {sink.url}")


class Sinks:
    """An HTTP server in the test's own process."""

    def __init__(self) -> None:
        self._sinks: dict[str, Sink] = {}
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._serve(self)

            do_GET = do_PUT = do_HEAD = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __getitem__(self, name: str) -> Sink:
        return self._sinks[f"/{name}"]

    def open(self, name: str, *answers: Answer) -> Sink:
        """A sink that gives these answers, the last one from then on; 202 without any."""
        sink = Sink(f"{self.base}/{name}", list(answers) or [Answer()])
        self._sinks[f"/{name}"] = sink
        return sink

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        sink = self._sinks.get(urlsplit(handler.path).path)
        if sink is None:
            handler.send_error(404)
            return
        with self._lock:
            sink.requests.append(Request(time.time(), handler.command, headers, body))
            number = len(sink.got(headers.get("ce-id", ""))) if "ce-id" in headers else len(sink.requests)
            answer = sink.answers[min(max(number, 1), len(sink.answers)) - 1]
            sink.under_way += 1
            sink.most_under_way = max(sink.most_under_way, sink.under_way)
        time.sleep(answer.after)
        if answer.when is not None:
            answer.when.wait(120)
        with self._lock:
            sink.under_way -= 1
        handler.send_response(answer.status)
        for name, value in answer.headers:
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(answer.body)))
        handler.end_headers()
        handler.wfile.write(answer.body)


@dataclass(frozen=True)
class Response:
    """An answer of the ingress."""

    status: int
    headers: dict[str, str]
    body: bytes


def request(url: str, method: str = "POST", headers: dict[str, str] | None = None, body: bytes = b"") -> Response:
    """One HTTP request."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=60)
    try:
        connection.request(method, parts.path or "/", body, headers or {})
        response = connection.getresponse()
        return Response(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def binary(ident: str, event_type: str = "t", **attributes: str) -> dict[str, str]:
    """The headers of an event in binary mode."""
    event = {"specversion": "1.0", "id": ident, "source": "/conformance", "type": event_type, **attributes}
    return {f"ce-{name}": value for name, value in event.items()} | {"content-type": "application/json"}


class World:
    """One namespace of the stack under test, and the sinks."""

    def __init__(self, stack: Stack, sinks: Sinks, namespace: str, kubeconfig: Path | None = None) -> None:
        """As the administrator, or as whoever the kubeconfig is for."""
        self.stack, self.sinks, self.namespace = stack, sinks, namespace
        self._client = Client(KubeConfig.from_file(kubeconfig or stack.kubeconfig), trust_env=False)

    def close(self) -> None:
        self._client.delete(KINDS["Namespace"], self.namespace)
        self.disconnect()

    def disconnect(self) -> None:
        """Leaves everything as it is."""
        self._client.close()

    def make(self, text: str) -> list[Manifest]:
        """Creates the objects of a YAML text in the namespace; `{sinks}` is the base URL of the sinks."""
        text = text.replace("{sinks}", self.sinks.base).replace("{namespace}", self.namespace)
        return [self.create(document) for document in yaml.safe_load_all(text) if document]

    def create(self, manifest: Manifest) -> Manifest:
        """Creates one object."""
        manifest.setdefault("apiVersion", api_version(manifest["kind"]))
        manifest["metadata"].setdefault("namespace", self.namespace)
        created: Any = self._client.create(from_dict(manifest))
        plain: Manifest = created.to_dict()
        return plain

    def refused(self, act: Callable[[], Any]) -> str:
        """The API's message to something that it must refuse."""
        with pytest.raises(ApiError) as caught:
            act()
        assert 400 <= (caught.value.status.code or 0) < 500
        return caught.value.status.message or ""

    def get(self, kind: str, name: str) -> Manifest:
        """The object as it is now."""
        found: Manifest = self._client.get(KINDS[kind], name, namespace=self.namespace).to_dict()
        return found

    def crd(self, name: str) -> Manifest:
        """A CustomResourceDefinition."""
        found: Manifest = self._client.get(CustomResourceDefinition, name).to_dict()
        return found

    def patch(self, kind: str, name: str, patch: Manifest) -> Manifest:
        """Changes an object by a merge patch."""
        return self._client.patch(  # type: ignore[no-any-return]
            KINDS[kind], name, patch, namespace=self.namespace, patch_type=PatchType.MERGE
        ).to_dict()

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object."""
        self._client.delete(KINDS[kind], name, namespace=self.namespace)

    def until(self, kind: str, name: str, look: Callable[[Manifest], Any], seconds: float = READY_SECONDS) -> Manifest:
        """The object once it is as wanted."""

        def now() -> Manifest | None:
            found = self.get(kind, name)
            assert look(found), found.get("status")
            return found

        settled: Manifest = eventually(now, seconds)
        return settled

    def ready(self, kind: str, *names: str, status: str = "True", seconds: float = READY_SECONDS) -> Manifest:
        """The last of the objects, once all are Ready as wanted for what was last asked of them."""
        found: Manifest = {}
        for name in names:
            found = self.until(kind, name, lambda item: settled(item) and condition(item)["status"] == status, seconds)
        return found

    def all_ready(self, made: Sequence[Manifest]) -> None:
        """Waits until everything that can be Ready is."""
        for item in made:
            if item["kind"] in ("Broker", "Channel", "Trigger", "Subscription", "InMemoryChannel"):
                self.ready(item["kind"], item["metadata"]["name"])

    def address(self, kind: str, name: str) -> str:
        """Where to send events to."""
        return str(self.get(kind, name)["status"]["address"]["url"])

    def send(self, kind: str, name: str, headers: dict[str, str], body: bytes = b'{"a":1}') -> Response:
        """Sends an event to a Broker or Channel, which must accept it."""
        answer = request(self.address(kind, name), "POST", headers, body)
        assert 200 <= answer.status < 300, f"{answer.status}: {answer.body!r}"
        return answer


def api_version(kind: str) -> str:
    """The group and version of a Knative kind."""
    return "eventing.knative.dev/v1" if kind in ("Broker", "Trigger") else "messaging.knative.dev/v1"


def condition(item: Manifest, kind: str = "Ready") -> Manifest:
    """One condition of an object; an empty one where it has none."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {"status": None})


def settled(item: Manifest) -> bool:
    """Whether the status is about the newest spec."""
    return bool((item.get("status") or {}).get("observedGeneration") == item["metadata"].get("generation"))


@contextmanager
def running_sinks() -> Iterator[Sinks]:
    """Sinks for the time of a block."""
    sinks = Sinks()
    try:
        yield sinks
    finally:
        sinks.close()


def structured(ident: str, **members: Any) -> tuple[dict[str, str], bytes]:
    """Headers and body of an event in structured mode."""
    event = {"specversion": "1.0", "id": ident, "source": "/conformance", "type": "t", **members}
    return {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()
