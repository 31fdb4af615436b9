"""What a transformation sees of an event, and how its result is declared."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from penstock.workloads.actors.transform import Transform, content_type_of, document_of

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-extra": "e"}


def test_an_event_is_seen_in_the_json_format() -> None:
    seen = document_of({**EVENT, "content-type": "application/json"}, b'{"a": 1}')
    assert seen == {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "extra": "e",
        "datacontenttype": "application/json",
        "data": {"a": 1},
    }


@pytest.mark.parametrize(("body", "seen"), [(b'{"a": 1}', {"a": 1}), (b"plain", "plain")])
def test_what_is_no_event_is_seen_as_it_is(body: bytes, seen: object) -> None:
    assert document_of({"content-type": "text/plain"}, body) == seen


@pytest.mark.parametrize(
    ("made", "content_type"),
    [
        ({"specversion": "1.0"}, "application/cloudevents+json"),
        ({"contenttype": "text/x", "specversion": "1.0"}, "text/x"),
        ({"a": 1}, "application/json"),
        ([1], "application/json"),
    ],
)
def test_the_result_says_what_it_is(made: object, content_type: str) -> None:
    assert content_type_of(made) == content_type


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"identity, gzip"])
async def test_an_encoded_event_is_refused_before_it_is_read(encoding: bytes) -> None:
    program = object.__new__(Transform)  # nothing of it is needed to refuse
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-encoding", encoding)]}
    answer = await program.answer(Request(scope))  # whose body cannot be read
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
