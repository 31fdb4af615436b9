"""Valid events of every kind, for property tests."""

from __future__ import annotations

import base64
import json
import string

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from penstock.events.event import CloudEvent

CORE = {"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data"}
LEGACY = {"schemaurl", "datacontentencoding"}

texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=["\ufffe", "\uffff"]).filter(
        lambda c: not "\ufdd0" <= c <= "\ufdef"
    ),
    max_size=20,
)
some_text = texts.filter(bool)
names = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20).filter(
    lambda name: name not in CORE | LEGACY
)
times = st.datetimes(timezones=st.just(None)).map(lambda time: time.isoformat() + "Z")
json_bytes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())
raw_bytes = st.binary(min_size=1, max_size=50)
contents = st.one_of(
    st.tuples(st.none(), st.none()),
    st.tuples(st.none(), raw_bytes),
    st.tuples(st.sampled_from(["application/json", "application/vnd.orders+json; charset=utf-8"]), json_bytes),
    st.tuples(st.just("application/json"), raw_bytes.filter(lambda data: data.strip() == data)),
    st.tuples(st.sampled_from(["text/plain", "application/xml", "text/html; charset=UTF-8"]), raw_bytes),
    st.tuples(st.sampled_from(["text/plain; charset=utf-16", "application/octet-stream", "image/png"]), raw_bytes),
    st.tuples(st.just("application/json"), st.none()),
    st.tuples(st.sampled_from(["application/cloudevents+json", "Application/CloudEvents-x"]), json_bytes),
)


@st.composite
def events_of(draw: st.DrawFn, version: str) -> CloudEvent:
    attributes = {"specversion": version, "id": draw(some_text), "source": draw(some_text), "type": draw(some_text)}
    if draw(st.booleans()):
        attributes["time"] = draw(times)
    if draw(st.booleans()):
        attributes["subject"] = draw(some_text)
    kind, data = draw(contents)
    if version == "0.3":
        if draw(st.booleans()):
            attributes["schemaurl"] = "/schemas/order"
        if data is not None and draw(st.booleans()):
            attributes["datacontentencoding"], data = "base64", base64.b64encode(data)
    elif draw(st.booleans()):
        attributes["dataschema"] = "https://example.com/order.json"
    if kind is not None:
        attributes["datacontenttype"] = kind
    attributes.update(draw(st.dictionaries(names, texts, max_size=3)))
    return CloudEvent(attributes, data)


events: SearchStrategy[CloudEvent] = st.sampled_from(["1.0", "0.3"]).flatmap(events_of)
