"""Hostile clients of the Kubernetes API, on a real socket."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from penstock.apiserver.access.identity import ADMIN
from penstock.apiserver.http import connections
from penstock.apiserver.http.connections import HEAD_BYTES, BoundedConnection
from penstock.apiserver.http.request_limits import WRONG_TOKENS, RequestLimits
from penstock.runtime.sockets import bound_socket
from penstock.web.server import HttpServer
from tests.hostile_clients import SMUGGLING, WAIT_SECONDS, allow_files, answer_to, bounded, codes
from tests.unit.apiserver.api_in_process import ApiInProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")
HALF_OPEN = 1000
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


class OnSocket:
    """The API as processes reach it, but for TLS."""

    def __init__(self, api: ApiInProcess, port: int, server: HttpServer) -> None:
        self.api, self.port, self.server = api, port, server

    def head(self, method: str = "GET", path: str = "/version", **headers: str) -> bytes:
        """The head of a request of the administrator."""
        given = {"authorization": f"Bearer {self.api.tokens[ADMIN]}", **headers}
        lines = [f"{method} {path} HTTP/1.1", "host: a", *(f"{name}: {value}" for name, value in given.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    async def post(self, body: bytes, **headers: str) -> list[int]:
        given = {"content-length": str(len(body)), "connection": "close", **headers}
        return codes(await answer_to(self.port, self.head("POST", CONFIGMAPS, **given) + body))

    async def still_serves(self) -> bool:
        return codes(await answer_to(self.port, self.head(connection="close"))) == [200]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(api: ApiInProcess) -> AsyncIterator[OnSocket]:
    with bound_socket("127.0.0.1", 0) as listener:
        server = HttpServer(api.app, listener, connection=BoundedConnection, most_connections=1500)
        async with server.listening(grace=5):
            yield OnSocket(api, listener.getsockname()[1], server)


async def test_an_apply_without_metadata_and_with_bytes_in_its_query_that_are_no_text(served: OnSocket) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\ndata: {a: b}\n"
    given = {"content-length": str(len(body)), "content-type": "application/apply-patch+yaml", "connection": "close"}
    head = served.head("PATCH", f"{CONFIGMAPS}/made?fieldManager=f&force=BYTES", **given)
    [code] = codes(await answer_to(served.port, head.replace(b"BYTES", b"\xf5") + body))
    assert code in (201, 400)  # 400: the server itself may refuse such a head
    [code] = codes(await answer_to(served.port, head.replace(b"BYTES", b"true") + body))
    assert code in (200, 201)
    assert await served.still_serves()


async def test_a_connection_that_is_never_used_ends_without_a_word(
    served: OnSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SPARE_SECONDS", 0.2)
    assert await answer_to(served.port, b"") == b""


@pytest.mark.parametrize("sent", [b"GET /version HT", b"GET /version HTTP/1.1\r\nauth"])
async def test_a_slow_head_is_given_up(served: OnSocket, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    assert codes(await answer_to(served.port, sent)) == [408]


async def test_a_slow_body_is_given_up(served: OnSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)
    head = served.head("POST", CONFIGMAPS, **{"content-length": "100"})
    assert codes(await answer_to(served.port, head, b"{")) == [408]


async def test_a_request_in_time_leaves_no_limit_behind(served: OnSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.3)
    head = served.head(path=f"{CONFIGMAPS}?watch=true&timeoutSeconds=1&resourceVersion=1", connection="close")
    said = await answer_to(served.port, head)
    assert codes(said) == [200]
    assert said.endswith(b"0\r\n\r\n")


async def test_a_head_without_end_is_cut_off(served: OnSocket) -> None:
    lines = [b"x-%d: %s\r\n" % (number, b"y" * 1000) for number in range(HEAD_BYTES // 1000 + 10)]
    with bounded(mib=32, cpu_seconds=10):
        said = await answer_to(served.port, served.head()[:-2], *lines)
    assert codes(said)[:1] in ([431], [])  # what was still on its way may cost the client the answer


async def test_a_thousand_half_open_connections_cost_little_and_others_are_served(served: OnSocket) -> None:
    allow_files(2 * HALF_OPEN + 500)
    with bounded(mib=96, cpu_seconds=30):
        opened = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(HALF_OPEN)]
        for _, writer in opened:
            writer.write(b"GET /version HTTP/1.1\r\nauth")
        assert await served.still_serves()
    for _, writer in opened:
        writer.close()
    async with asyncio.timeout(WAIT_SECONDS):
        while served.server.server_state.connections:  # noqa: ASYNC110  # they announce no end
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("what", SMUGGLING)
async def test_what_two_servers_could_read_differently_is_refused(served: OnSocket, what: str) -> None:
    said = await answer_to(served.port, served.head("POST", CONFIGMAPS)[:-2] + SMUGGLING[what], ends=True)
    assert set(codes(said)) <= {400, 408}
    assert len(codes(said)) <= 1


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
async def test_deep_json_is_refused(served: OnSocket, opening: bytes) -> None:
    with bounded(mib=64, cpu_seconds=10):
        assert await served.post(opening * 100_000) == [400]
        depth = 900
        assert await served.post(b'{"data":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1)) in ([400], [422])


@pytest.mark.parametrize(
    "body",
    [
        b"a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\n",
        b"[" * 20_000,
        b"? " * 20_000,
        b"- " * 20_000,
        b"&a " + b"{a: " * 5_000,
    ],
    ids=["aliases", "brackets", "keys", "lists", "maps"],
)
async def test_yaml_bombs_are_refused(served: OnSocket, body: bytes) -> None:
    with bounded(mib=96, cpu_seconds=20):
        assert await served.post(body, **{"content-type": "application/yaml"}) == [400]


async def test_a_compressed_bomb_is_not_unpacked(served: OnSocket) -> None:
    with bounded(mib=32, cpu_seconds=10):
        assert await served.post(gzip.compress(b" " * 16 * 1024 * 1024), **{"content-encoding": "gzip"}) == [400]


async def test_a_body_beyond_the_limit_is_not_held(served: OnSocket) -> None:
    with bounded(mib=32, cpu_seconds=10):
        assert await served.post(b" " * 16 * 1024 * 1024) == [413]


async def test_a_watch_that_never_reads_is_cut_off(served: OnSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.5)
    made = await served.api.made(CONFIGMAPS, {"metadata": {"name": "big"}, "data": {"a": ""}})
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
    writer.write(served.head(path=f"{CONFIGMAPS}?watch=true&resourceVersion={made['metadata']['resourceVersion']}"))
    await writer.drain()
    with bounded(mib=128, cpu_seconds=60):
        for number in range(40):
            change = {"data": {"a": str(number) + "x" * 500_000}}
            status, _ = await served.api.call(
                "PATCH", f"{CONFIGMAPS}/big", change, media="application/merge-patch+json"
            )
            assert status == 200
        async with asyncio.timeout(WAIT_SECONDS):
            while served.server.server_state.connections:  # noqa: ASYNC110  # they announce no end
                await asyncio.sleep(0.05)
    writer.close()
    del reader


@pytest.mark.parametrize("aborts", [True, False], ids=["aborts", "closes"])
@pytest.mark.parametrize(
    ("method", "path", "given", "sent"),
    [
        ("POST", CONFIGMAPS, {"content-length": "100"}, b"{"),
        ("PATCH", f"{CONFIGMAPS}/big", {"transfer-encoding": "chunked"}, b"1\r\n{\r\n"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"content-length": "100"}, b"{"),
        ("GET", f"{CONFIGMAPS}?watch=true", {}, b""),
        ("GET", CONFIGMAPS, {}, b""),
    ],
    ids=["create", "patch", "review", "watch", "list"],
)
async def test_a_client_that_leaves_is_no_error(
    served: OnSocket,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    given: dict[str, str],
    sent: bytes,
    aborts: bool,
) -> None:
    for number in range(4):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * 1_000_000}}
        assert (await served.api.call("POST", CONFIGMAPS, body))[0] in (201, 409)
    with capture_logs() as logged:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
        writer.write(served.head(method, path, **given) + sent)
        await writer.drain()
        async with asyncio.timeout(WAIT_SECONDS):
            if not sent:
                await reader.readexactly(100)  # the answer has begun
            else:
                while not served.server.server_state.tasks:  # noqa: ASYNC110  # they announce no beginning
                    await asyncio.sleep(0.001)
            if aborts:
                writer.transport.abort()
            else:
                writer.close()
            state = served.server.server_state
            while state.connections or state.tasks:  # noqa: ASYNC110  # they announce no end
                await asyncio.sleep(0.01)
    assert [line for line in logged if line["log_level"] == "error"] == []
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_tokens_are_not_guessed_quickly_and_the_right_ones_still_pass(
    served: OnSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.api.app, "_limits", RequestLimits(100, lambda: 1000.0))
    seen = []
    for number in range(WRONG_TOKENS + 3):
        guess = served.head(authorization=f"Bearer guess-{number}", connection="close")
        seen += codes(await answer_to(served.port, guess))
    assert seen == [401] * WRONG_TOKENS + [429] * 3
    assert await served.still_serves()
    # Nor does it hold up a token that was never seen before, though it comes from the same address.
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    issued = await served.api.made(f"{accounts}/default/token", {"spec": {}})
    unseen = served.head(authorization=f"Bearer {issued['status']['token']}", connection="close")
    assert codes(await answer_to(served.port, unseen)) == [200]
    guess = served.head(authorization="Bearer guess", connection="close")
    assert codes(await answer_to(served.port, guess)) == [429]


async def test_who_asks_too_often_gets_429_with_the_time_to_wait(
    api: ApiInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "eager"}})
    issued = await api.made("/api/v1/namespaces/default/serviceaccounts/eager/token", {"spec": {}})
    monkeypatch.setattr(api.app, "_limits", RequestLimits(2, lambda: 1000.0))
    answers = [await api.call("GET", "/version", token=issued["status"]["token"]) for _ in range(6)]
    assert [status for status, _ in answers] == [200] * 4 + [429] * 2
    assert answers[-1][1]["details"] == {"retryAfterSeconds": 1}
    assert (await api.call("GET", "/version"))[0] == 200
