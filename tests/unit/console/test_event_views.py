"""What the page of an event is made of: data to fold, bytes, the picture of its attempts, commands to copy."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response

from penstock.cli.event_input import event_of
from penstock.console.events import data_view
from penstock.console.events.data_view import (
    MOST_BYTES,
    MOST_TEXT,
    JsonNode,
    beginning,
    folded,
    hex_dump,
    size,
    view_of,
)
from penstock.console.events.resending import (
    account_of,
    as_curl,
    as_json,
    as_send,
    cloud_event,
    disposition,
    file_name,
    refusal,
)
from penstock.console.events.state import AcceptingTarget
from penstock.console.events.timeline import MOST_LANES, span_text, ticks_of, timeline_of
from penstock.events import json_format
from penstock.events.event import CloudEvent
from penstock.history.reader.answers import Attempt, Event
from penstock.operations.sending import SendingAddress, Sent

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def event(data: bytes | None = b"{}", **changes: Any) -> Event:
    named: dict[str, Any] = {
        "partition": 0,
        "offset": 7,
        "arrival": NOON,
        "target": "uid-default",
        "id": "1",
        "source": "/s",
        "type": "t",
        "specversion": "1.0",
        "subject": None,
        "time": None,
        "dataschema": None,
        "datacontenttype": "application/json",
        "extensions": {"region": "eu"},
        "data": data,
        "traceparent": None,
    }
    return Event(**{**named, **changes})


def attempt(after: float, result: str = "delivered", **changes: Any) -> Attempt:
    named: dict[str, Any] = {
        "partition": 0,
        "offset": 7,
        "record": 0,
        "route": "r",
        "kind": "Trigger",
        "namespace": "default",
        "name": "orders",
        "stage": "subscriber",
        "attempt": 1,
        "destination": "http://sink/",
        "start": NOON + timedelta(seconds=after),
        "duration": 0.1,
        "status": 202,
        "result": result,
        "reason": None,
        "due": None,
    }
    return Attempt(**{**named, **changes})


# --- data ----------------------------------------------------------------------------------------------------------


def test_json_is_folded_with_numbers_as_they_were_written() -> None:
    tree = folded(b'{"a": [1.0, 1e400, 12345678901234567890123], "b": null, "c": "x"}')
    assert tree is not None
    assert [(child.name, child.kind, child.text) for child in tree.children] == [
        ("a", "array", "3 entries"),
        ("b", "literal", "null"),
        ("c", "string", '"x"'),
    ]
    assert [one.text for one in tree.children[0].children] == ["1.0", "1e400", "12345678901234567890123"]


def test_no_more_of_a_document_is_shown_than_one_can_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_view, "MOST_NODES", 10)
    tree = folded(json.dumps(list(range(100))).encode())
    assert tree is not None
    assert tree.children[-1] == JsonNode("rest", "91 more")
    assert len(tree.children) == 10


@pytest.mark.parametrize("data", [b"{", b"NaN", b"[" * 100_000, b"\xff"])
def test_what_is_no_json_is_not_folded(data: bytes) -> None:
    assert folded(data) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_every_document_can_be_looked_at(value: Any) -> None:
    assert folded(json.dumps(value).encode()) is not None


def test_data_is_shown_as_what_it_is() -> None:
    assert view_of(None, None) is None
    tree = view_of(b'{"a": 1}', "application/cloudevents+json")
    assert tree is not None
    assert tree.tree is not None
    text = view_of(b"hello", "text/plain")
    assert text is not None
    assert (text.text, text.left) == ("hello", 0)
    assert view_of(b"{broken", "application/json") == view_of(b"{broken", "application/json")
    broken = view_of(b"{broken", "application/json")
    assert broken is not None
    assert broken.text == "{broken"
    binary = view_of(b"\x00\xff" * MOST_BYTES, "image/png")
    assert binary is not None
    assert (len(binary.hex_lines), binary.left) == (MOST_BYTES // 16, MOST_BYTES)


def test_a_long_text_is_cut_between_characters() -> None:
    long = view_of("ä".encode() * MOST_TEXT, "text/plain")
    assert long is not None
    assert long.text is not None
    assert set(long.text) == {"ä"}
    assert long.left == MOST_TEXT


def test_bytes_in_hexadecimal() -> None:
    assert hex_dump(b"Hello, World! 123\x00") == [
        "00000000  48 65 6c 6c 6f 2c 20 57  6f 72 6c 64 21 20 31 32  |Hello, World! 12|",
        "00000010  33 00                                             |3.|",
    ]


def test_the_beginning_of_data_in_a_line() -> None:
    assert beginning(b'{\n  "a": 1\n}', "application/json") == '{ "a": 1 }'
    assert beginning(b"\xff\x00", "image/png") == "2 bytes of image/png"
    assert beginning(b"x" * 5000, "text/plain").endswith("… (4.9 KiB)")
    assert beginning(None, "") == ""
    assert size(1) == "1 byte"
    assert size(3 * 1024 * 1024) == "3.0 MiB"


# --- the picture ---------------------------------------------------------------------------------------------------


def test_a_lane_for_each_route_and_what_failed_comes_first() -> None:
    attempts = [
        attempt(0.1, route="fine", name="fine"),
        attempt(0.0, "retry", status=503, reason="HTTP status 503"),
        attempt(2.0, "dropped", attempt=2, status=None, reason="refused"),
    ]
    picture = timeline_of(event(), attempts, NOON)
    assert [(lane.title, lane.is_well) for lane in picture.lanes] == [
        ("trigger default/orders → http://sink/", False),
        ("trigger default/fine → http://sink/", True),
    ]
    assert picture.summary == "2 routes, 1 served, 1 not"
    first, last = picture.lanes[0].bars
    assert (first.left, round(last.left), round(last.left + last.width)) == (0.0, 95, 100)
    assert last.label == "attempt 2, after 2 s: no response in 100 ms: dropped (refused)"
    assert first.label == "attempt 1, after 0 ms: 503 in 100 ms: retrying"


def test_what_is_due_is_drawn_until_it_is() -> None:
    waiting = attempt(0.0, "retry", due=NOON + timedelta(seconds=10))
    assert timeline_of(event(), [waiting], NOON).lanes[0].waits == (1.0, 100.0)
    assert timeline_of(event(), [waiting], NOON + timedelta(seconds=11)).lanes[0].waits is None


def test_a_picture_has_no_more_lanes_than_one_can_look_at() -> None:
    picture = timeline_of(event(), [attempt(0.1, route=f"r{n}") for n in range(MOST_LANES + 5)], NOON)
    assert (len(picture.lanes), picture.more) == (MOST_LANES, 5)


@given(st.lists(st.tuples(st.floats(-5, 1e5), st.floats(0, 600)), min_size=1, max_size=8))
def test_every_bar_lies_in_the_picture(times: list[tuple[float, float]]) -> None:
    attempts = [attempt(after, duration=took) for after, took in times]
    for lane in timeline_of(event(), attempts, NOON).lanes:
        for bar in lane.bars:
            assert 0 <= bar.left <= 100
            assert bar.width > 0
            assert bar.left + bar.width <= 100.01


def test_ticks_are_round() -> None:
    assert [tick.label for tick in ticks_of(6.3)] == ["0 ms", "2 s", "4 s", "6 s"]
    assert [tick.label for tick in ticks_of(0.05)] == ["0 ms", "20 ms", "40 ms"]
    assert (span_text(90), span_text(600), span_text(9000)) == ("90 s", "10 min", "2.5 h")


# --- commands to copy ----------------------------------------------------------------------------------------------


def arguments(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", " "))


def test_curl_sends_what_was_accepted() -> None:
    sent = cloud_event(event(b"it's {}", subject="ä b"))
    words = arguments(as_curl(sent, place(url="http://127.0.0.1:8080/default/default?a=b&c")))
    headers = [words[n + 1] for n, word in enumerate(words) if word == "-H"]
    assert words[:2] == ["curl", "http://127.0.0.1:8080/default/default?a=b&c"]
    assert set(headers) == {
        "ce-specversion: 1.0",
        "ce-id: 1",
        "ce-source: /s",
        "ce-type: t",
        "ce-subject: %C3%A4%20b",
        "content-type: application/json",
        "ce-region: eu",
    }
    assert words[-2:] == ["--data-raw", "it's {}"]


def test_curl_takes_bytes_from_a_pipe_and_long_data_from_a_file() -> None:
    binary = as_curl(CloudEvent({"specversion": "1.0", "id": "a/b", "source": "/s", "type": "t"}, b"\xff\x00"), None)
    assert binary.startswith("printf %s /wA= | base64 -d | curl http://ADDRESS")
    assert "-H 'Content-Type:'" in binary
    long = CloudEvent({"specversion": "1.0", "id": "a/b", "source": "/s", "type": "t"}, b"x" * 100_000)
    assert arguments(as_curl(long, None))[-1] == "@event-a-b"
    assert file_name(long.with_attributes(id="../..")) == "event--"


@pytest.mark.parametrize("ident", ["заказ-7", "ä", "注文"])
def test_a_download_keeps_the_letters_of_an_id_in_a_header_that_is_ascii(ident: str) -> None:
    name = file_name(CloudEvent({"specversion": "1.0", "id": ident, "source": "/s", "type": "t"}))
    header = Response(headers={"Content-Disposition": disposition(name)}).headers["content-disposition"]
    assert header.isascii()
    assert unquote(header.partition("filename*=UTF-8''")[2]) == f"event-{ident}"


def place(
    kind: str = "Broker", audience: str = "", url: str = "https://h/shop/orders", authorities: str = ""
) -> AcceptingTarget:
    return AcceptingTarget("uid", kind, "shop", "orders", SendingAddress(url, authorities, audience))


def test_curl_asks_for_a_token_and_for_the_authorities(tmp_path: Path) -> None:
    for program in ("kubectl", "curl"):
        (tmp_path / program).write_text(f'#!/bin/sh\nprintf "%s\\n" {program} "$@"\n')
        (tmp_path / program).chmod(0o700)
    command = as_curl(cloud_event(event(b"\xff")), place(audience="knative/shop/orders", authorities="PEM"), "till")
    env = {"PATH": f"{tmp_path}:{os.defpath}"}
    ran = subprocess.run(["sh", "-ec", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    asked = ["kubectl", "create", "token", "till", "-n", "shop", "--audience", "knative/shop/orders"]
    assert "Authorization: Bearer " + "\n".join(asked) in ran.stdout
    assert "--cacert\norders-ca.pem" in ran.stdout
    shown = ["kubectl", "get", "broker", "orders", "-n", "shop", "-o", "jsonpath={.status.address.CACerts}"]
    assert (tmp_path / "orders-ca.pem").read_text().split() == shown


@pytest.mark.parametrize("kind", ["Broker", "InMemoryChannel"])
def test_send_takes_the_whole_event_from_a_pipe(kind: str) -> None:
    sent = cloud_event(event(b"it's\xff", subject="ä b"))
    words = arguments(as_send(sent, place(kind), "--token @key.txt"))
    assert (words[:2], words[3:7]) == (["printf", "%s"], ["|", "penstock", "send", "--event"])
    assert json_format.decode(words[2].encode()) == sent
    target = ["--broker" if kind == "Broker" else "--channel", "orders"]
    assert words[7:] == ["-", *target, "--namespace", "shop", "--token", "@key.txt"]


def test_send_takes_long_data_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = cloud_event(event(b"x" * 100_000, subject="it's"))
    words = arguments(as_send(sent, place(), "--service-account till"))
    assert words[:4] == ["penstock", "send", "--file", "event-1"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "event-1").write_bytes(sent.data or b"")
    given = event_of(file=Path(words[3]), attributes=[words[n + 1] for n, word in enumerate(words) if word == "-a"])
    assert given.data == sent.data
    assert {name: given.attributes[name] for name in sent.attributes} == sent.attributes


def answered(status: int | None, problem: str = "why") -> Sent:
    return Sent("https://h/shop/orders", "1", "/s", status, 0.1, problem)


def test_a_refusal_names_status_reason_and_what_to_do() -> None:
    sent = cloud_event(event())
    key = refusal(answered(401), sent, place(), "default")
    assert key.what == "The broker shop/orders did not accept the event and responded with 401 Unauthorized: why"
    assert "penstock keys create orders NAME --namespace shop > key.txt" in key.remedy
    assert key.details == (as_send(sent, place(), "--token @key.txt"),)
    policy = refusal(answered(403), sent, place(audience="a"), "till")
    assert "The ServiceAccount till is not authorized" in policy.remedy
    assert policy.details == (as_send(sent, place(), "--service-account NAME"),)
    for status in (401, 503, 599):
        other = refusal(answered(status), sent, place(audience="a"), "till")
        assert (f"responded with {status}" in other.what, other.remedy, other.details) == (True, "", ())
    assert "is unreachable at https://h/shop/orders: why" in refusal(answered(None), sent, place(), "").what


@pytest.mark.parametrize(
    ("user", "account"),
    [
        ("system:serviceaccount:shop:till", "till"),
        ("system:serviceaccount:other:till", "default"),
        ("jane", "default"),
        ("jane:shop:till", "default"),
        ("", "default"),
    ],
)
def test_whoever_is_a_service_account_of_the_namespace_sends_as_it(user: str, account: str) -> None:
    assert account_of(user, place()) == account


def test_json_is_that_of_cloudevents() -> None:
    assert json.loads(as_json(cloud_event(event(b'{"a":1}')))) == {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "datacontenttype": "application/json",
        "region": "eu",
        "data": {"a": 1},
    }
