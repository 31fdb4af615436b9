"""What the proxy of names makes of a request, and what event_display prints."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import pytest
from starlette.requests import Request

from penstock.contract.names import Location, NothingThere
from penstock.events.event import CloudEvent
from penstock.workloads import proxy
from penstock.workloads.actors.event_display import display
from penstock.workloads.proxy import NameProxy, is_cluster_name, namespace_of, spellings, url_of


def test_the_url_is_that_of_the_host_header() -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"host", b"sink.ns.svc:81")],
        "raw_path": b"/a%20b",
        "query_string": b"x=1",
    }
    assert url_of(Request(scope)) == "http://sink.ns.svc:81/a%20b?x=1"


def basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "namespace"),
    [
        (basic("shop:pw"), "shop"),
        (basic("shop:pw").replace("Basic", "basic"), "shop"),
        (basic(":pw"), ""),
        (basic("shop:"), None),
        (basic("shop"), None),
        (basic("shop:pw "), None),
        (basic("shop:pä"), None),
        ("Basic ???", None),
        ("Basic /w==", None),
        ("Bearer pw", None),
        ("", None),
    ],
)
def test_the_user_names_the_namespace_where_the_password_is_right(header: str, namespace: str | None) -> None:
    assert namespace_of(header, "pw") == namespace


def test_a_short_name_is_one_of_the_namespace_first() -> None:
    assert spellings("http://sink:81/x", "shop") == ["http://sink.shop.svc.cluster.local:81/x", "http://sink:81/x"]
    assert spellings("http://sink.shop/x", "shop") == ["http://sink.shop/x"]
    assert spellings("http://sink/x", "") == ["http://sink/x"]


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("http://a.b.svc", True),
        ("http://a.b.svc.cluster.local:80/x", True),
        ("http://a.b", False),
        ("http://svc", False),
    ],
)
def test_names_that_only_the_cluster_can_know(url: str, known: bool) -> None:
    assert is_cluster_name(url) == known


def test_event_display_prints_as_knatives_does() -> None:
    event = CloudEvent(
        {
            "specversion": "1.0",
            "id": "1",
            "source": "/s",
            "type": "t",
            "subject": "sub",
            "time": "2026-01-01T00:00:00Z",
            "datacontenttype": "application/json",
            "the": "42",
            "beats": "true",
        },
        b'{"id":2,"price":1.50,"label":""}',
    )
    assert display(event) == (
        "☁️  cloudevents.Event\n"
        "Context Attributes,\n"
        "  specversion: 1.0\n"
        "  type: t\n"
        "  source: /s\n"
        "  subject: sub\n"
        "  id: 1\n"
        "  time: 2026-01-01T00:00:00Z\n"
        "  datacontenttype: application/json\n"
        "Extensions,\n"
        "  beats: true\n"
        "  the: 42\n"
        "Data,\n"
        "  {\n"
        '    "id": 2,\n'
        '    "price": 1.50,\n'
        '    "label": ""\n'
        "  }"
    )


@pytest.mark.parametrize("data", [b"{broken", b"plain"])
def test_data_that_is_no_json_is_printed_as_it_is(data: bytes) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json"}
    assert display(CloudEvent(attributes, data)).endswith(f"Data,\n  {data.decode()}")
    assert "Data" not in display(CloudEvent(attributes, None))


class Upstream:
    """A request and its answer in one; keeps what was asked of it."""

    def __init__(self, name: str, asked: list[tuple[str, str, str]]) -> None:
        self._name, self._asked = name, asked
        self.status, self.headers, self.body_reader = 200, {"x-from": name, "connection": "close"}, self

    def request(self, method: str, url: str) -> Upstream:
        self._asked.append((self._name, method, url))
        return self

    async def __aenter__(self) -> Upstream:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def read_chunk(self) -> None:
        return None


PASSWORD = "of-this-node"
SHOWN = basic(f"shop:{PASSWORD}").encode()


async def ask(locate: Any, url: str, shown: bytes | None = SHOWN) -> tuple[int, list[tuple[str, str, str]]]:
    """The proxy's status for a GET, and what it asked of others."""
    asked: list[tuple[str, str, str]] = []
    said: list[Any] = []
    host, _, path = url.removeprefix("http://").partition("/")
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"host", host.encode()), *([] if shown is None else [(b"proxy-authorization", shown)])],
        "raw_path": f"/{path}".encode(),
        "query_string": b"",
    }

    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        if (message := next(messages, None)) is not None:
            return message
        await asyncio.Event().wait()  # the client stays
        raise AssertionError("unreachable")

    async def send(message: Any) -> None:
        said.append(message)

    clients = [cast(Any, Calling(Upstream(name, asked))) for name in ("direct", "outside")]
    await NameProxy(locate, PASSWORD, *clients)(scope, receive, send)
    return int(said[0]["status"]), asked


class Calling:
    """`headers` is a method before a request is sent and a mapping in its answer."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def request(self, method: str, url: str) -> Any:
        made = self._upstream.request(method, url)

        class Built:
            headers = header = body_bytes = lambda self, *_: self

            def build_streamed(self) -> Upstream:
                return made

        return Built()


async def test_a_service_without_a_ready_pod_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "AGAIN_SECONDS", 0.0)
    tries = iter(range(3))

    def locate(url: str) -> Location:
        if next(tries, 3) < 3:
            raise NothingThere("sink has no ready address behind it")
        return Location("http://127.66.1.1:8080/x", "sink")

    assert await ask(locate, "http://sink/x") == (200, [("direct", "GET", "http://127.66.1.1:8080/x")])


async def test_a_service_that_never_is_ready_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "WAIT_SECONDS", 0.0)
    assert await ask(Location, "http://gone.shop.svc/x") == (503, [])


async def test_other_names_are_left_to_the_machine() -> None:
    assert await ask(Location, "http://example.com/x") == (200, [("outside", "GET", "http://example.com/x")])


@pytest.mark.parametrize("shown", [None, basic("shop:").encode()])
async def test_without_the_password_nothing_is_asked_of_others(shown: bytes | None) -> None:
    """A built-in program can choose the `Host` of its requests, and so would choose the address of the proxy's."""
    assert await ask(Location, "http://169.254.169.254/latest", shown) == (407, [])


async def test_a_request_that_leads_back_to_the_proxy_is_refused() -> None:
    asked: list[tuple[str, str, str]] = []
    clients = [cast(Any, Calling(Upstream(name, asked))) for name in ("direct", "outside")]
    proxy = NameProxy(Location, PASSWORD, *clients)
    statuses = []
    for via in ("1.1 other", f"1.1 other, {proxy.via}"):
        headers = [(b"host", b"127.0.0.1:9"), (b"via", via.encode()), (b"proxy-authorization", SHOWN)]
        scope = {"type": "http", "method": "GET", "headers": headers, "raw_path": b"/", "query_string": b""}
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive(messages: list[Any] = messages) -> Any:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        await proxy(scope, receive, send)
    assert statuses == [200, 508]
    assert [url for _, _, url in asked] == ["http://127.0.0.1:9/"]
