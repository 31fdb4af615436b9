"""What the proxy of names makes of a request, and what event_display prints."""

from __future__ import annotations

import base64

import pytest
from starlette.requests import Request

from penstock.events.event import CloudEvent
from penstock.workloads.actors.event_display import display
from penstock.workloads.proxy import is_cluster_name, namespace_of, spellings, url_of


def test_the_url_is_that_of_the_host_header() -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"host", b"sink.ns.svc:81")],
        "raw_path": b"/a%20b",
        "query_string": b"x=1",
    }
    assert url_of(Request(scope)) == "http://sink.ns.svc:81/a%20b?x=1"


@pytest.mark.parametrize(
    ("header", "namespace"),
    [
        (f"Basic {base64.b64encode(b'shop:').decode()}", "shop"),
        (f"basic {base64.b64encode(b'shop').decode()}", "shop"),
        ("Basic ???", ""),
        ("Bearer x", ""),
        ("", ""),
    ],
)
def test_the_user_names_the_namespace(header: str, namespace: str) -> None:
    assert namespace_of(header) == namespace


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
