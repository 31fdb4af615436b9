"""Every parser that sees foreign bytes, as a function of bytes: it raises only where penstock has a fault.

What the documentation says of bad input is allowed: `MalformedEvent`, `InvalidFilter`, `ParseError`, an `ApiError` or
an answer below 500. Anything else that comes out is a finding.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.apiserver.access import identity
from penstock.apiserver.documents import decode, encode
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http import requests, selectors
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.schema import walker_of
from penstock.apiserver.protobuf import json_form
from penstock.apiserver.verbs import patches
from penstock.contract.records import record_of
from penstock.dispatcher.http.connection import NoResponse, SubscriberConnection
from penstock.events import http, json_format, kafka_binding
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.filters import cesql
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from tests.unit.apiserver.api_in_process import ApiInProcess, api_in_process
from tests.unit.ingress.ingress_requests import Client, Wire
from tests.unit.workloads.made_up_pods import MadeUpPods, Names

Target = Callable[[bytes], None]

_KEPT: list[object] = []
"""What would end if nobody held it."""

EVENT = CloudEvent(
    {
        "specversion": "1.0",
        "id": "1",
        "source": "/here",
        "type": "made.up",
        "subject": "a",
        "datacontenttype": "application/json",
        "n": "7",
    },
    b'{"a":{"b":[1,"x",null,true]},"n":1.5}',
)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "labels": {"x": "y"}},
    "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}]},
}


class Finding(AssertionError):
    """An answer that nobody should get."""


def pieces(data: bytes) -> Iterable[bytes]:
    """The input behind its first byte, cut in so many parts as that says: parsers must not care."""
    if not data:
        return
    count, rest = data[0] % 4 + 1, data[1:]
    cuts = [len(rest) * n // count for n in range(count + 1)]
    yield from (rest[start:end] for start, end in pairwise(cuts))


class _Loop:
    """An event loop that stays between inputs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)


def ingress() -> Target:
    """HTTP as producers send it: heads, bodies, pipelines, in pieces."""
    client, loop = Client(), _Loop()

    async def converse(data: bytes) -> Wire:
        connection, wire = client.connect()
        for piece in pieces(data):
            if not wire.is_closed:
                connection.data_received(piece)
                await asyncio.sleep(0)
        if not wire.is_closed:
            connection.eof_received()
        connection.connection_lost(None)
        client.log.records.clear()
        return wire

    def target(data: bytes) -> None:
        wire = loop.run(converse(data))
        for line in wire.written.split(b"\r\n"):
            if line.startswith(b"HTTP/1.1 5") and not line.startswith(b"HTTP/1.1 501"):
                raise Finding(line)
        if client.held_bytes or client.connections:
            raise Finding("something is held after the end of a connection")

    return target


def events() -> Target:
    """CloudEvents over HTTP in every mode: lines of headers, an empty line, the body."""

    def target(data: bytes) -> None:
        head, _, body = data.partition(b"\n\n")
        pairs = [
            (name, value.strip()) for name, colon, value in (x.partition(b":") for x in head.split(b"\n")) if colon
        ]
        try:
            headers = http.fold_headers(pairs)
            found = http.all_from_http(headers, body)
        except MalformedEvent:
            return
        for event in found:
            _check_forms(event)

    return target


def _check_forms(event: CloudEvent) -> None:
    """What was taken can be stored, sent on in every form, and read again as the same event."""
    record = record_of(event, [])
    if kafka_binding.from_headers(record.headers, record.value).attributes != event.attributes:
        raise Finding("the record is another event")
    headers, body = http.to_binary(event)
    again = http.from_http(http.fold_headers((name.encode(), value.encode()) for name, value in headers), body)
    if again.attributes != event.attributes:
        raise Finding(f"binary mode makes another event of it: {event} {again}")
    http.from_http(*_structured(event))


def _structured(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    headers, body = http.to_structured(event)
    return dict(headers), body


def structured() -> Target:
    """The JSON format of one event."""
    return _json_format(lambda data: [json_format.decode(data)])


def batch() -> Target:
    """The JSON format of many."""
    return _json_format(json_format.decode_batch)


def _json_format(read: Callable[[bytes], list[CloudEvent]]) -> Target:
    def target(data: bytes) -> None:
        try:
            found = read(data)
        except MalformedEvent:
            return
        for event in found:
            _check_forms(event)

    return target


def cesql_expressions() -> Target:
    """The text of an expression."""

    def target(data: bytes) -> None:
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
        try:
            cesql.parse(text)
        except cesql.ParseError:
            return
        try:
            predicate = parse(None, [{"cesql": text}])
        except InvalidFilter:
            return
        matches_event(predicate, EVENT)

    return target


def filters() -> Target:
    """The `filters` of a Trigger."""

    def target(data: bytes) -> None:
        try:
            document = requests.parse_document(data, "application/json")
        except ApiError:
            return
        listed = document if isinstance(document, list) else [document]
        try:
            predicate = parse(document if isinstance(document, dict) else None, listed)
        except InvalidFilter:
            return
        matches_event(predicate, EVENT)

    return target


def filtered_data() -> Target:
    """Data that a filter on data looks at."""
    asked = parse(
        None,
        [
            {"any": [{"data": {"a.b": "x"}}, {"data": {"n": {"gt": 1}}}, {"data": {"a": {"exists": True}}}]},
        ],
    )

    def target(data: bytes) -> None:
        matches_event(asked, CloudEvent(EVENT.attributes, data))

    return target


def _body(media: str) -> Callable[[], Target]:
    def make() -> Target:
        def target(data: bytes) -> None:
            try:
                found = requests.parse_object(data, media)
            except ApiError as error:
                _check(error)
                return
            encode(found)

        return target

    return make


def _check(error: ApiError) -> None:
    if error.code >= 500:
        raise Finding(str(error)) from error
    encode(error.status())


def query_parameters() -> Target:
    """Selectors, and numbers of lists and watches."""
    known = ("status.phase", "spec.nodeName")

    def selected(text: str) -> bool:
        fields = selectors.parse_fields(text)
        selectors.check_fields(fields, known)
        return selectors.matches_fields(fields, POD)

    def target(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        for read in (
            lambda: selectors.matches_labels(selectors.parse_labels(text), {"a": "b"}),
            lambda: selected(text),
            lambda: requests.whole_number({"limit": text}, "limit"),
            lambda: requests.accepted_form(text),
        ):
            try:
                read()
            except ApiError as error:
                _check(error)

    return target


def patched() -> Target:
    """A JSON, merge or strategic patch of a Pod; the first byte says which."""
    pods = next(kind for kind in CORE_KINDS if kind.kind == "Pod")

    def target(data: bytes) -> None:
        try:
            document = decode(data[1:])
        except Exception:  # what is no JSON is another target's
            return
        which = data[:1]
        try:
            if which < b"\x50":
                made = patches.json(POD, document)
            elif which < b"\xa0":
                made = patches.merge(POD, document)
            else:
                made = patches.strategic(POD, document, walker_of(pods))
        except ApiError as error:
            _check(error)
            return
        encode(made)

    return target


def api() -> Target:
    """Whole requests to the Kubernetes API: method and path, media type, and behind an empty line the body."""
    loop, folder = _Loop(), Path(tempfile.mkdtemp(prefix="penstock-fuzz-"))
    served = api_in_process(folder)
    _KEPT.append(served)
    client: ApiInProcess = loop.run(served.__aenter__())
    admin = client.tokens[identity.ADMIN].encode()

    def target(data: bytes) -> None:
        head, _, body = data.partition(b"\n\n")
        first, _, media = head.partition(b"\n")
        method, _, address = first.partition(b" ")
        path, _, query = address.partition(b"?")
        if method not in (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE") or not path.startswith(b"/"):
            return
        # Nothing is kept, and no watch lasts.
        query += b"&dryRun=All" if method != b"GET" else b"&timeoutSeconds=1"
        status = loop.run(_asked(client, method, path, query, media, admin, body))
        if status >= 500:
            raise Finding(f"{status} to {method!r} {path!r} {query!r}")

    return target


async def _asked(
    client: ApiInProcess, method: bytes, path: bytes, query: bytes, media: bytes, token: bytes, body: bytes
) -> int:
    sent: list[Any] = []
    parts = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method.decode(),
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"content-type", media), (b"authorization", b"Bearer " + token)],
        "server": ("127.0.0.1", 443),
        "client": ("127.0.0.1", 1),
        "scheme": "https",
    }
    await client.app(scope, receive, send)
    return int(sent[0]["status"])


def replies() -> Target:
    """What a subscriber answers, in pieces."""
    loop = _Loop()

    async def answered(data: bytes) -> None:
        connection = SubscriberConnection(lambda _: None, 1024 * 1024)
        connection.connection_made(_Sink())
        waiter = connection.send(b"POST / HTTP/1.1\r\n\r\n", b"", loop.loop.time() + 60, 60, reply_counts=True)
        for piece in pieces(data):
            if not connection.closed:
                connection.data_received(piece)
        connection.connection_lost(None)
        try:
            answer = await waiter
        except NoResponse:
            return
        answer.error_body()
        if answer.headers and http.is_event(answer.headers):
            try:
                _check_forms(http.from_http(answer.headers, answer.event_body()))
            except MalformedEvent:
                return

    return lambda data: loop.run(answered(data))


class _Sink(Wire):
    def writelines(self, list_of_data: Iterable[Any]) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def pods() -> Target:
    """Names in the spec of a Pod, a line for each, behind the kind of volume: what the node touches and asks for."""
    folder = tempfile.TemporaryDirectory()
    _KEPT.append(folder)
    node = MadeUpPods(Path(folder.name))

    def target(data: bytes) -> None:
        lines = data[1:].decode("utf-8", "replace").split("\n")
        node.check(Names(data[0] if data else 0, *lines[: len(Names._fields) - 1]))

    return target


TARGETS: dict[str, Callable[[], Target]] = {
    "ingress": ingress,
    "events": events,
    "structured": structured,
    "batch": batch,
    "cesql": cesql_expressions,
    "filters": filters,
    "filtered-data": filtered_data,
    "json": _body("application/json"),
    "yaml": _body("application/yaml"),
    "protobuf": _body(json_form.MEDIA),
    "parameters": query_parameters,
    "patches": patched,
    "api": api,
    "replies": replies,
    "pods": pods,
}
