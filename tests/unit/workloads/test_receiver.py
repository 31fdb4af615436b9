"""The receiver as a program on the wire sees it, and the observations it reports. No sockets: plain ASGI calls."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.events.event import CloudEvent
from penstock.workloads.actors.options import ActorOptions, read_options
from penstock.workloads.actors.receiver import Receiver
from penstock.workloads.actors.reporting import EventInfo, PodLog, Reports, canonical_name, event_json

ENV = {
    "POD_NAME": "sink-abc",
    "SYSTEM_NAMESPACE": "conformance",
    "EVENT_GENERATORS": "receiver",
    "EVENT_LOGS": "recorder,logger",
}
BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "emitter-conformance",
    "ce-type": "com.example.conformance",
    "ce-time": "2022-04-05T17:31:00Z",
    "ce-sequence": "1",
    "content-type": "application/json",
    "host": "sink-ack.conformance.svc.cluster.local",
    "prefer": "reply",
    "kn-namespace": "conformance",
}


class Sink:
    """A receiver, what it answered, and what it reported."""

    def __init__(self, **env: str) -> None:
        options: ActorOptions = read_options("eventshub", ENV | env)
        assert options.receiver is not None
        self.names: list[str] = []
        self.infos: list[dict[str, Any]] = []
        self.log = io.StringIO()
        reports = Reports(options.common, PodLog(self.log), self._record)
        self._app = Receiver(options.common.name, options.receiver, reports, self._review)

    async def _review(self, token: str, audience: str) -> dict[str, Any] | None:
        return {"username": f"system:serviceaccount:ns:{token}"} if audience == "sink-audience" else None

    async def _record(self, component: str, name: str, message: str) -> None:
        self.names.append(name)
        self.infos.append(json.loads(message))

    async def post(
        self,
        headers: dict[str, str],
        body: bytes = b'{"test":"x"}',
        method: str = "POST",
        path: str = "/",
        scheme: str = "http",
    ) -> tuple[int, dict[str, str], bytes]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(
            {
                "type": "http",
                "method": method,
                "scheme": scheme,
                "path": path,
                "query_string": b"",
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
                "client": ("127.0.0.1", 5050),
            },
            receive,
            send,
        )
        answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:])


MakeSink = Callable[..., Sink]


@pytest.fixture
def make_sink() -> MakeSink:
    return Sink


async def test_a_received_event_is_reported_as_the_documents_print_it(make_sink: MakeSink) -> None:
    sink = make_sink()
    status, _, body = await sink.post(BINARY)
    assert (status, body) == (202, b"")
    assert sink.names == ["sink-abc.Received.1"]
    info = sink.infos[0]
    assert list(info) == ["kind", "event", "httpHeaders", "origin", "observer", "time", "sequence"]
    assert info["event"] == {
        "specversion": "1.0",
        "id": "1",
        "source": "emitter-conformance",
        "type": "com.example.conformance",
        "datacontenttype": "application/json",
        "time": "2022-04-05T17:31:00Z",
        "data": {"test": "x"},
        "sequence": "1",
    }
    assert list(info["event"])[:4] == ["specversion", "id", "source", "type"]
    assert list(info["event"])[-2:] == ["data", "sequence"]
    assert info["httpHeaders"] == {
        "Content-Type": ["application/json"],
        "Host": ["sink-ack.conformance.svc.cluster.local"],
        "Kn-Namespace": ["conformance"],
        "Prefer": ["reply"],
    }
    assert info["origin"] == "127.0.0.1:5050"
    assert (info["observer"], info["sequence"]) == ("sink-abc", 1)
    assert json.dumps(info, separators=(",", ":")) in sink.log.getvalue()


async def test_where_tls_is_asked_for_an_event_without_it_is_rejected(make_sink: MakeSink) -> None:
    sink = make_sink(ENFORCE_TLS="true")
    assert (await sink.post({}, b"", "GET", "/health/ready"))[0] == 200
    assert (await sink.post(BINARY))[0] == 400
    assert (await sink.post(BINARY, scheme="https"))[0] == 202
    rejected, received = sink.infos
    assert (rejected["kind"], rejected["statusCode"]) == ("Rejected", 400)
    assert "failed to enforce TLS" in rejected["error"]
    assert (received["kind"], "oidcUserInfo" in received) == ("Received", False)


@pytest.mark.parametrize("header", [{}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer"}])
async def test_where_a_token_is_asked_for_an_event_without_one_is_rejected(
    make_sink: MakeSink, header: dict[str, str]
) -> None:
    sink = make_sink(OIDC_AUDIENCE="sink-audience")
    assert (await sink.post(BINARY | header))[0] == 401
    assert (sink.infos[0]["kind"], sink.infos[0]["statusCode"]) == ("Rejected", 401)


async def test_the_owner_of_a_token_is_reported(make_sink: MakeSink) -> None:
    sink = make_sink(OIDC_AUDIENCE="sink-audience")
    assert (await sink.post(BINARY | {"authorization": "Bearer sender"}))[0] == 202
    assert sink.infos[0]["oidcUserInfo"] == {"username": "system:serviceaccount:ns:sender"}


async def test_a_token_for_another_audience_is_rejected(make_sink: MakeSink) -> None:
    sink = make_sink(OIDC_AUDIENCE="other-audience")
    assert (await sink.post(BINARY | {"authorization": "Bearer sender"}))[0] == 401
    assert sink.infos[0]["error"] == "user not authenticated"


async def test_rejected_and_received_are_counted_apart(make_sink: MakeSink) -> None:
    sink = make_sink(SKIP_ALGORITHM="sequence", SKIP_COUNTER="3")
    statuses = [(await sink.post(BINARY))[0] for _ in range(5)]
    assert statuses == [409, 409, 409, 202, 202]
    expected = [("Rejected", 1), ("Rejected", 2), ("Rejected", 3), ("Received", 1), ("Received", 2)]
    assert [(info["kind"], info["sequence"]) for info in sink.infos] == expected


async def test_a_rejection_says_what_it_is_told_to(make_sink: MakeSink) -> None:
    sink = make_sink(
        SKIP_ALGORITHM="sequence",
        SKIP_COUNTER="1",
        SKIP_RESPONSE_CODE="429",
        SKIP_RESPONSE_BODY="slow down",
        SKIP_RESPONSE_HEADERS="Retry-After:7",
    )
    status, headers, body = await sink.post(BINARY)
    assert (status, headers["retry-after"], body) == (429, "7", b"slow down")


async def test_a_reply_keeps_what_it_does_not_replace(make_sink: MakeSink) -> None:
    sink = make_sink(
        REPLY="true",
        REPLY_EVENT_TYPE="conformance.reply",
        REPLY_EVENT_SOURCE="sink-abc",
        REPLY_EVENT_DATA='{"conformance":"response message"}',
    )
    status, headers, body = await sink.post(BINARY)
    assert status == 200
    assert body == b'{"conformance":"response message"}'
    assert (headers["ce-type"], headers["ce-source"], headers["ce-id"]) == ("conformance.reply", "sink-abc", "1")
    assert (headers["ce-sequence"], headers["content-type"]) == ("1", "application/json")
    assert "replying with the event 1 of type conformance.reply" in sink.log.getvalue()


async def test_data_can_be_appended_in_a_reply(make_sink: MakeSink) -> None:
    sink = make_sink(REPLY="true", REPLY_APPEND_DATA=" and more")
    for kind, data, text in (
        ("text/plain", b"text", b"text and more"),
        ("application/json", b'"text"', b"text and more"),
        ("application/json", b'{"no": "text"}', b" and more"),
        ("image/png", b"text", b" and more"),
        ("text/plain", b"", b" and more"),
    ):
        _, headers, body = await sink.post({**BINARY, "content-type": kind}, data)
        assert (body, headers["ce-type"]) == (text, "com.example.conformance")
        assert headers["content-type"].startswith("text/plain")


async def test_what_is_no_event_is_reported_with_its_body(make_sink: MakeSink) -> None:
    sink = make_sink(REPLY="true")
    status, _, _ = await sink.post({"content-type": "text/plain"}, b"hello")
    assert status == 400
    info = sink.infos[0]
    assert info["kind"] == "Received"
    assert "no event" in info["error"]
    assert base64.b64decode(info["body"]) == b"hello"


async def test_probes_are_answered_and_not_reported(make_sink: MakeSink) -> None:
    sink = make_sink()
    assert (await sink.post({}, b"", method="HEAD"))[0] == 200
    assert (await sink.post({}, b"", method="GET", path="/health/ready"))[0] == 200
    assert sink.infos == []


async def test_the_expected_format_is_checked(make_sink: MakeSink) -> None:
    sink = make_sink(EVENT_FORMAT="json")
    await sink.post(BINARY)
    assert "binary mode" in sink.infos[0]["error"]


async def test_a_recorder_that_fails_does_not_fail_the_request(make_sink: MakeSink) -> None:
    sink = make_sink()

    async def refuse(component: str, name: str, message: str) -> None:
        raise ConnectionError("no API")

    sink._app._reports._record = refuse
    assert (await sink.post(BINARY))[0] == 202
    assert "sink-abc.Received.1 could not be written: no API" in sink.log.getvalue()


@pytest.mark.parametrize(
    ("content_type", "data", "field", "value"),
    [
        ("application/json", b'{"a":1}', "data", {"a": 1}),
        (None, b'"text"', "data", "text"),
        ("application/json", b"{broken", "data", "{broken"),
        ("text/plain; charset=utf-8", "grün".encode(), "data", "grün"),
        ("application/octet-stream", b"\xff\x00", "data_base64", "/wA="),
        ("application/vnd.x+json", b"[1]", "data", [1]),
    ],
)
def test_data_in_the_json_of_an_event(content_type: str | None, data: bytes, field: str, value: object) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    if content_type:
        attributes["datacontenttype"] = content_type
    assert event_json(CloudEvent(attributes, data))[field] == value


def test_an_event_without_data_has_no_data_member() -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    assert event_json(CloudEvent(attributes)) == attributes


def test_a_response_carries_its_status() -> None:
    info = EventInfo("Response", "emitter", "2022-04-05T17:31:00Z", 1, status=202, sent_id="7")
    assert json.loads(info.to_json()) == {
        "kind": "Response",
        "statusCode": 202,
        "observer": "emitter",
        "time": "2022-04-05T17:31:00Z",
        "sequence": 1,
        "id": "7",
    }


@pytest.mark.parametrize(
    ("name", "canonical"), [("accept-encoding", "Accept-Encoding"), ("x-b3-traceid", "X-B3-Traceid"), ("HOST", "Host")]
)
def test_header_names_are_spelled_as_go_spells_them(name: str, canonical: str) -> None:
    assert canonical_name(name) == canonical
