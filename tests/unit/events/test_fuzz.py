"""Nothing that a peer sends raises anything but MalformedEvent."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.events import http
from penstock.events import kafka_binding as kafka
from penstock.events.attributes import check_event
from penstock.events.event import MalformedEvent
from tests.examples import examples

header_names = st.sampled_from(
    [
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-time",
        "ce-subject",
        "ce-dataschema",
        "ce-x",
        "content-type",
        "ce-datacontenttype",
        "ce-",
        "ce-data",
        "ce-A-b",
        "ce-datacontentencoding",
    ]
)
header_values = st.one_of(
    st.sampled_from(
        ["1.0", "0.3", "2026-01-31T12:00:00Z", "application/cloudevents+json", "application/cloudevents-batch+json"]
    ),
    st.sampled_from(
        ["%", "%zz", "%ff", "%00", '"', '"a\\', '"a b"', "%E2%82%AC", "a%20b", "application/cloudevents+avro"]
    ),
    st.text(max_size=12),
)
raw_headers = st.lists(
    st.tuples(
        st.one_of(header_names.map(str.encode), st.binary(max_size=10)),
        st.one_of(header_values.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=12)),
    ),
    max_size=8,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | header_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(header_values, inner, max_size=3),
    max_leaves=5,
)
members = st.dictionaries(
    st.sampled_from(
        ["specversion", "id", "source", "type", "time", "data", "data_base64", "datacontenttype", "ID", "ext"]
    )
    | header_values,
    json_values,
    max_size=8,
)
bodies = st.one_of(
    st.binary(max_size=60),
    members.map(lambda value: json.dumps(value).encode()),
    st.lists(members | json_values, max_size=3).map(lambda value: json.dumps(value).encode()),
)


@examples(4)
@given(raw_headers, bodies)
def test_http_gives_valid_events_or_says_what_is_wrong(raw: list[tuple[bytes, bytes]], body: bytes) -> None:
    with contextlib.suppress(MalformedEvent):
        for event in http.all_from_http(http.fold_headers(raw), body):
            check_event(event.attributes)
            http.to_binary(event)
            http.to_structured(event)
            kafka.to_headers(event)


@examples(3)
@given(st.sampled_from([http.STRUCTURED_JSON, http.BATCH_JSON]), bodies)
def test_json_bodies_give_valid_events_or_say_what_is_wrong(content_type: str, body: bytes) -> None:
    with contextlib.suppress(MalformedEvent):
        for event in http.all_from_http({"content-type": content_type}, body):
            check_event(event.attributes)
            http.to_structured(event)


@given(st.lists(st.tuples(st.text(max_size=8) | st.just("ce_id"), st.none() | st.binary(max_size=8))))
def test_records_give_events_or_say_what_is_wrong(headers: list[tuple[str, bytes | None]]) -> None:
    with contextlib.suppress(MalformedEvent):
        kafka.from_headers(headers, None)
