"""CloudEvents of every kind through a Broker and a Channel and out again, unchanged.

Random events are encoded and decoded by the official Python SDK, so that penstock is not judged by its own bindings;
the edge cases of the HTTP binding are written out by hand.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance.world import Request, World, binary

TARGETS = [("Broker", "hub", "out-broker"), ("Channel", "line", "out-channel")]
each_target = pytest.mark.parametrize(("kind", "name", "sink"), TARGETS, ids=["Broker", "Channel"])
ADDED = {"knativearrivaltime"}
"""What a Broker adds to every event."""


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    world.sinks.open("out-broker")
    world.sinks.open("out-channel")
    made = world.make(
        """
kind: Broker
metadata: {name: hub}
---
kind: Trigger
metadata: {name: all}
spec: {broker: hub, subscriber: {uri: "{sinks}/out-broker"}}
---
kind: Channel
metadata: {name: line}
---
kind: Subscription
metadata: {name: all}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: line}
  subscriber: {uri: "{sinks}/out-channel"}
"""
    )
    world.all_ready(made)


printable = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co"), exclude_characters="\ufeff"), min_size=1, max_size=30
).filter(lambda text: text == text.strip())
names = st.from_regex(r"[a-z][a-z0-9]{1,18}", fullmatch=True).map(lambda name: f"x{name}")
moments = st.datetimes(
    min_value=datetime(1970, 1, 2),
    max_value=datetime(2100, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
contents = st.one_of(
    st.none().map(lambda _: (None, None)),
    st.dictionaries(printable, st.one_of(st.integers(-(2**31), 2**31), printable, st.none(), st.booleans())).map(
        lambda data: ("application/json", data)
    ),
    printable.map(lambda text: ("text/plain", text)),
    st.just(("application/xml", "<?xml version='1.0'?><a b='c'>gr\u00fcn</a>")),
    st.binary(min_size=1, max_size=200).map(lambda data: ("application/octet-stream", data)),
)


@st.composite
def events(draw: st.DrawFn) -> CloudEvent:
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": "/" + draw(st.from_regex(r"[a-z0-9/_.~-]{1,20}", fullmatch=True)),
        "type": draw(printable),
    }
    if draw(st.booleans()):
        attributes["subject"] = draw(printable)
    attributes["time"] = draw(moments)
    attributes |= draw(st.dictionaries(names, st.one_of(printable, st.integers(-(2**31), 2**31 - 1)), max_size=4))
    content_type, data = draw(contents)
    if content_type:
        attributes["datacontenttype"] = content_type
    return CloudEvent(attributes, data)


def canonical(attributes: dict[str, Any]) -> dict[str, str]:
    """Attributes as strings, times as moments: the form in which two events can be compared."""
    plain: dict[str, str] = {}
    for name, value in attributes.items():
        if isinstance(value, datetime):
            plain[name] = value.astimezone(UTC).isoformat()
        else:
            plain[name] = str(value)
    return plain


def plain_data(data: Any) -> Any:
    """Text as bytes: the SDK gives bytes that happen to be UTF-8 back as text."""
    return data.encode() if isinstance(data, str) else data


def received(got: Request) -> CloudEvent:
    event = from_http_event(HTTPMessage(headers=got.headers, body=got.body))
    assert isinstance(event, CloudEvent)
    return event


@each_target
@pytest.mark.assertion("br-delivery-01", "et-protocol-01")
@pytest.mark.parametrize("mode", ["binary", "structured"])
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(batch=st.lists(events(), min_size=10, max_size=25))
def test_random_events_pass_unchanged(
    world: World, kind: str, name: str, sink: str, mode: str, batch: list[CloudEvent]
) -> None:
    encode = to_binary_event if mode == "binary" else to_structured_event
    for event in batch:
        message = encode(event)
        world.send(kind, name, message.headers, message.body)
    for event in batch:
        ident = str(event.get_id())
        out = received(world.sinks[sink].wait(ident)[0])
        got = {name: value for name, value in canonical(out.get_attributes()).items() if name not in ADDED}
        assert got == canonical(event.get_attributes())
        if event.get_data() is not None:
            assert plain_data(out.get_data()) == plain_data(event.get_data())


def structured(**members: Any) -> tuple[dict[str, str], bytes]:
    return {"content-type": "application/cloudevents+json; charset=utf-8"}, json.dumps(members).encode()


EDGES: dict[str, tuple[dict[str, str], bytes, dict[str, str], bytes]] = {
    "percent-encoded value": (
        binary("", subject="Euro%20%E2%82%AC%20%F0%9F%98%80"),
        b"1",
        {"subject": "Euro \u20ac \U0001f600"},
        b"1",
    ),
    "quoted value": (binary("", ext='"with space"'), b"1", {"ext": "with space"}, b"1"),
    "percent sign in the text": (binary("", ext="100%25"), b"1", {"ext": "100%"}, b"1"),
    "nanoseconds and offset": (
        binary("", time="2020-12-31T23:59:59.999999999-08:00"),
        b"1",
        {"time": "2020-12-31T23:59:59.999999999-08:00"},
        b"1",
    ),
    "long extension": (binary("", abcdefghij0123456789="v" * 2000), b"1", {"abcdefghij0123456789": "v" * 2000}, b"1"),
    "JSON with its spaces": (binary(""), b'{ "b" : 1.50,\n "a":"\\u00fc" }', {}, b'{ "b" : 1.50,\n "a":"\\u00fc" }'),
    "no data": ({k: v for k, v in binary("").items() if k != "content-type"}, b"", {}, b""),
    "empty text": (binary("") | {"content-type": "text/plain"}, b"", {}, b""),
    "XML": (binary("") | {"content-type": "application/xml"}, b"<a>\xc3\xbc</a>", {}, b"<a>\xc3\xbc</a>"),
    "bytes": (binary("") | {"content-type": "application/octet-stream"}, bytes(range(256)), {}, bytes(range(256))),
    "charset": (
        binary("") | {"content-type": "text/plain; charset=iso-8859-1"},
        b"\xfc",
        {"datacontenttype": "text/plain; charset=iso-8859-1"},
        b"\xfc",
    ),
    "structured, data_base64": (
        *structured(specversion="1.0", source="/s", type="t", data_base64="AAH/"),
        {},
        b"\x00\x01\xff",
    ),
    "structured, text": (
        *structured(specversion="1.0", source="/s", type="t", datacontenttype="text/plain", data="gr\u00fcn"),
        {},
        "gr\u00fcn".encode(),
    ),
    "structured, JSON string": (
        *structured(specversion="1.0", source="/s", type="t", datacontenttype="application/json", data="text"),
        {},
        b'"text"',
    ),
    "structured, number and boolean": (
        *structured(specversion="1.0", source="/s", type="t", number=42, flag=True),
        {"number": "42", "flag": "true"},
        b"",
    ),
    "structured, unicode": (
        *structured(specversion="1.0", source="/s", type="\u0442\u0438\u043f", subject="\u65e5\u672c"),
        {"type": "\u0442\u0438\u043f", "subject": "\u65e5\u672c"},
        b"",
    ),
    "0.3 binary": (
        binary("", specversion="0.3", schemaurl="https://example.com/s"),
        b"{}",
        {"specversion": "0.3", "schemaurl": "https://example.com/s"},
        b"{}",
    ),
    "0.3 structured": (
        *structured(specversion="0.3", source="/s", type="t", datacontenttype="application/json", data={"a": 1}),
        {"specversion": "0.3"},
        b'{"a": 1}',
    ),
    "0.3 base64": (
        *structured(
            specversion="0.3",
            source="/s",
            type="t",
            datacontentencoding="base64",
            datacontenttype="application/octet-stream",
            data="AAH/",
        ),
        {"specversion": "0.3", "datacontentencoding": "base64"},
        b"AAH/",
    ),
}


@each_target
@pytest.mark.assertion("br-delivery-01", "br-ingress-02", "br-ingress-03", "et-protocol-01")
@pytest.mark.parametrize("case", EDGES)
def test_edge_cases_of_the_http_binding(world: World, kind: str, name: str, sink: str, case: str) -> None:
    headers, body, attributes, data = EDGES[case]
    ident = f"{kind}-{uuid.uuid4()}"
    if "ce-id" in headers:
        headers = headers | {"ce-id": ident}
    else:
        body = json.dumps({**json.loads(body), "id": ident}, ensure_ascii=False).encode()
    world.send(kind, name, headers, body)
    got = world.sinks[sink].wait(ident)[0]
    for attribute, value in attributes.items():
        assert unquote(got.attribute(attribute) or "") == value
    assert got.body == data


@pytest.mark.assertion("et-protocol-01")
@each_target
def test_the_sdk_sends_and_receives(world: World, kind: str, name: str, sink: str) -> None:
    ident = f"sdk-{kind}"
    sent = CloudEvent(
        {"specversion": "1.0", "id": ident, "source": "/sdk", "type": "sdk", "datacontenttype": "application/json"},
        {"n": [1, 2]},
    )
    for encode in (to_binary_event, to_structured_event):
        message = encode(sent)
        world.send(kind, name, message.headers, message.body)
    for got in world.sinks[sink].wait(ident, 2):
        event = received(got)
        assert (event.get_id(), event.get_source(), event.get_type()) == (ident, "/sdk", "sdk")
        assert event.get_data() == {"n": [1, 2]}
