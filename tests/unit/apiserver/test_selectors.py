"""Selectors: what is written is what is selected."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from penstock.apiserver.documents import encode
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.read_endpoints import selection
from penstock.apiserver.http.request_info import request_info
from penstock.apiserver.http.requests import locate
from penstock.apiserver.http.selectors import (
    Requirement,
    check_fields,
    exact_name,
    matches_fields,
    matches_labels,
    parse_fields,
    parse_labels,
)
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from tests.examples import examples

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,5}[A-Za-z0-9])?", fullmatch=True)
KEYS = NAMES | st.builds("{}/{}".format, st.from_regex(r"[a-z0-9]{1,4}\.[a-z]{2}", fullmatch=True), NAMES)
VALUES = NAMES | st.just("")
LABELS = st.dictionaries(KEYS, VALUES, max_size=4)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["exists", "absent"])),
    st.builds(Requirement, KEYS, st.sampled_from(["in", "notin"]), st.frozensets(VALUES, min_size=1, max_size=3)),
)

REGISTRY = Registry(CORE_KINDS)
SECRETS = ("allowed", "other", "x", "", "allowed,metadata.name=other", "x,metadata.name=allowed")
TERMS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["metadata.name", " metadata.name", "type", ""]),
    st.sampled_from(["=", "==", "!=", " = ", ""]),
    st.sampled_from(["allowed", "other", "x", "\\", ""]),
    st.sampled_from([",", "\\,", " ,", ""]),
)
SELECTORS = st.lists(TERMS, max_size=3).map(lambda terms: "".join(terms).removesuffix(","))
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["fieldSelector", "field%53elector", "fieldSelector", "limit", "watch"]),
        SELECTORS | st.sampled_from(["true", "1", ""]),
        st.booleans(),
    ),
    max_size=3,
).map(lambda pairs: "&".join(f"{key}={quote(value) if quoted else value}" for key, value, quoted in pairs))
PATHS = st.sampled_from(["/api/v1/namespaces/ns/secrets", "//api/v1/secrets/", "/api/v1/namespaces/ns/secrets/x"])


def written(requirement: Requirement) -> str:
    if requirement.operator == "exists":
        return requirement.key
    if requirement.operator == "absent":
        return f"!{requirement.key}"
    return f"{requirement.key} {requirement.operator} ({', '.join(sorted(requirement.values))})"


@given(st.lists(REQUIREMENTS, min_size=1, max_size=4))
def test_a_written_selector_is_read_back(requirements: list[Requirement]) -> None:
    assert parse_labels(",".join(map(written, requirements))) == tuple(requirements)


@given(LABELS)
def test_labels_are_selected_by_their_own_equalities(labels: dict[str, str]) -> None:
    selector = parse_labels(",".join(f"{key}={value}" for key, value in labels.items()))
    assert matches_labels(selector, labels)
    for key in labels:
        assert not matches_labels(selector, {name: value for name, value in labels.items() if name != key})


@given(KEYS, VALUES, LABELS)
def test_opposites_select_what_the_other_does_not(key: str, value: str, labels: dict[str, str]) -> None:
    for one, other in (
        (f"{key}={value}", f"{key}!={value}"),
        (key, f"!{key}"),
        (f"{key} in (a,b)", f"{key} notin (a,b)"),
    ):
        assert matches_labels(parse_labels(one), labels) != matches_labels(parse_labels(other), labels)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_a_clear_refusal(text: str) -> None:
    with contextlib.suppress(ApiError):
        assert isinstance(parse_labels(text), tuple)


@pytest.mark.parametrize("text", ["a in b", "a in (b", "=x", "a=b=c", "a,,b", ",", "a b", "!", "a=ü", "a>1"])
def test_rubbish_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match=f"unable to parse requirement: {re.escape(repr(text))}"):
        parse_labels(text)


def test_field_selectors() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "sink"}, "reason": "Seen", "count": 3}
    assert matches_fields(parse_fields("reason=Seen,involvedObject.name==sink,count=3"), event)
    assert not matches_fields(parse_fields("reason!=Seen"), event)
    assert matches_fields(parse_fields("metadata.namespace="), event)
    assert matches_fields(parse_fields(r"reason!=a\,b"), event)
    assert exact_name(parse_fields("metadata.name=x")) == "x"
    assert exact_name(parse_fields("metadata.name!=x")) is None


@pytest.mark.parametrize("text", ["spec.color=red", "reason", "a=b,", "reason>x"])
def test_unknown_or_broken_fields_are_refused(text: str) -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.color|invalid selector"):
        check_fields(parse_fields(text), ("reason",))


@examples(4)
@given(st.sampled_from(["GET", "HEAD", "DELETE"]), PATHS, QUERIES)
def test_what_is_allowed_by_name_is_done_to_that_name_only(method: str, path: str, query: str) -> None:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
    scope["headers"] = []
    asked = request_info(scope).access
    place = locate(request_info(scope), REGISTRY)
    try:
        keep, name = selection(Request(scope), place)
    except ApiError:
        return
    if not asked.name:
        return
    assert (place.name or name) == asked.name
    if not place.name:
        bodies = [encode({"metadata": {"name": one, "namespace": "ns"}}) for one in SECRETS]
        assert keep is not None
        assert {json.loads(body)["metadata"]["name"] for body in bodies if keep(body)} <= {asked.name}
