"""What the API answers, as the client gives it to its callers: objects, pages, changes, and typed errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from penstock.kube.client import AsyncClient, Client, Selection
from penstock.kube.config import ConfigError, config_of, read_config, with_token
from penstock.kube.errors import (
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    Unauthorized,
    Unavailable,
    error_of_status,
)
from penstock.kube.kinds import CONFIG_MAP, NAMESPACE, SECRET, Key, Obj

CONFIG = config_of("https://api", token="secret")
DB = Key("shop", "db")
Answer = Callable[[httpx2.Request], httpx2.Response]


def client(answer: Answer, **more: Any) -> Client:
    return Client(CONFIG, transport=httpx2.MockTransport(answer), **more)


def async_client(answer: Answer, **more: Any) -> AsyncClient:
    return AsyncClient(CONFIG, transport=httpx2.MockTransport(answer), **more)


def always(status: int, **options: Any) -> Answer:
    return lambda _: httpx2.Response(status, **options)


@pytest.mark.parametrize(
    ("status", "kind", "temporary"),
    [
        (401, Unauthorized, False),
        (403, Forbidden, False),
        (404, NotFound, False),
        (409, Conflict, False),
        (410, Gone, False),
        (422, KubeError, False),
        (429, KubeError, True),
        (500, KubeError, True),
        (503, KubeError, True),
    ],
)
async def test_each_status_has_its_error_with_the_words_of_the_api(
    status: int, kind: type[KubeError], temporary: bool
) -> None:
    answer = always(status, json={"kind": "Status", "code": status, "message": "so it is"})
    for call in (client(answer).create, client(answer).replace):
        with pytest.raises(KubeError, match="so it is") as raised:
            call(SECRET, {"metadata": DB._asdict()})
        assert (type(raised.value), raised.value.code, raised.value.is_temporary) == (kind, status, temporary)
    with pytest.raises(KubeError, match="so it is") as raised:
        await async_client(answer).get(SECRET, DB)
    assert (type(raised.value), raised.value.code) == (kind, status)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (always(502, text="<html>bad gateway</html>"), "<html>bad gateway</html>"),
        (always(502, json=["bad"]), "HTTP status 502"),
        (always(502), "HTTP status 502"),
        (always(502, json={}), "HTTP status 502"),
        (always(302, headers={"location": "https://elsewhere"}), "HTTP status 302"),
    ],
)
def test_an_answer_of_something_else_than_the_api_is_an_error_all_the_same(answer: Answer, text: str) -> None:
    with pytest.raises(KubeError) as raised:
        client(answer).get(SECRET, DB)
    assert str(raised.value) == text
    assert not isinstance(raised.value, Unavailable)


def _refused(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("connection refused")


def _token_is_gone(_: httpx2.Request) -> httpx2.Response:
    raise FileNotFoundError("token")


@pytest.mark.parametrize("answer", [_refused, _token_is_gone, always(200, text="{"), always(200, json=[])])
async def test_without_an_answer_that_can_be_read_the_api_is_unavailable(answer: Answer) -> None:
    with pytest.raises(Unavailable) as raised:
        client(answer).get(SECRET, DB)
    assert (raised.value.code, raised.value.is_temporary, str(raised.value) != "") == (None, True, True)
    with pytest.raises(Unavailable):
        await async_client(answer).list(SECRET)


def test_an_object_that_is_not_there_is_none_for_those_who_only_look() -> None:
    assert client(always(404)).read(SECRET, DB) is None
    with pytest.raises(Forbidden, match="403"):
        client(always(403)).read(SECRET, DB)


async def test_a_list_has_all_pages_with_the_kind_of_every_item_and_the_newest_version() -> None:
    asked: list[dict[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(dict(request.url.params))
        page = len(asked)
        metadata = {"resourceVersion": str(page)} | ({"continue": f"after {page}"} if page < 3 else {})
        return httpx2.Response(200, json={"metadata": metadata, "items": [{"metadata": {"name": f"o{page}"}}]})

    chosen = Selection({"case": "a"}, {"metadata.name": "x"})
    listing = await async_client(answer).list(CONFIG_MAP, "shop", chosen)
    assert [one["metadata"]["name"] for one in listing.objects] == ["o1", "o2", "o3"]
    assert {(one["apiVersion"], one["kind"]) for one in listing.objects} == {("v1", "ConfigMap")}
    assert listing.version == "3"
    selected = {"limit": "500", "labelSelector": "case=a", "fieldSelector": "metadata.name=x"}
    assert asked == [selected, selected | {"continue": "after 1"}, selected | {"continue": "after 2"}]


def watching(*lines: str | Obj) -> Answer:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return always(200, text=text)


async def changes_of(answer: Answer) -> list[tuple[str, str]]:
    seen = []
    async with async_client(answer).watch(SECRET, "7") as changes:
        async for change, obj in changes:
            assert obj["kind"] == "Secret"
            seen.append((change, obj["metadata"]["name"]))
    return seen


def change(kind: str, name: str) -> Obj:
    return {"type": kind, "object": {"metadata": {"name": name}}}


async def test_a_watch_gives_the_changes_of_objects() -> None:
    answer = watching(change("ADDED", "a"), "", change("BOOKMARK", "b"), change("DELETED", "c"))
    assert await changes_of(answer) == [("ADDED", "a"), ("DELETED", "c")]


async def test_a_watch_that_cannot_be_opened_has_the_words_of_the_api() -> None:
    with pytest.raises(Forbidden, match="you may not"):
        await changes_of(always(403, json={"message": "you may not"}))


async def test_an_error_within_a_watch_is_that_of_its_status() -> None:
    with pytest.raises(Gone, match="too old"):
        await changes_of(watching({"type": "ERROR", "object": {"code": 410, "message": "too old"}}))


async def test_a_watch_that_is_cut_off_within_a_line_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="truncated"):
        await changes_of(watching(change("ADDED", "a"), '{"type": "ADDED", "obj'))


async def test_what_a_reader_of_a_watch_raises_is_its_own() -> None:
    with pytest.raises(OSError, match="disk is full"):
        async with async_client(watching()).watch(SECRET, "7"):
            raise OSError("disk is full")


async def test_a_user_is_named_in_every_request_with_the_credentials_of_the_connection() -> None:
    seen: list[tuple[str | None, str | None]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.headers.get("impersonate-user"), request.headers.get("authorization")))
        return httpx2.Response(200, json={"metadata": {}})

    await async_client(answer, user="system:serviceaccount:shop:till").get(SECRET, DB)
    await async_client(answer).get(SECRET, DB)
    assert seen == [("system:serviceaccount:shop:till", "Bearer secret"), (None, "Bearer secret")]


def test_writes_name_their_manager_and_their_kind_and_keep_what_the_object_says() -> None:
    sent: list[tuple[str, dict[str, str], str | None, Obj]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        sent.append((request.method, dict(request.url.params), request.headers.get("content-type"), body))
        return httpx2.Response(201 if request.method == "PATCH" else 200, json=body)

    api = client(answer, field_manager="me")
    obj = {"metadata": {"name": "db", "namespace": "shop"}}
    whole = {"apiVersion": "v1", "kind": "Secret", **obj}
    assert api.create(SECRET, obj, dry_run=True) == whole
    assert api.apply(SECRET, obj, force=True) == (whole, True)
    api.patch(SECRET, DB, {"data": None})
    assert sent == [
        ("POST", {"fieldManager": "me", "dryRun": "All"}, "application/json", whole),
        ("PATCH", {"fieldManager": "me", "force": "true"}, "application/apply-patch+yaml", whole),
        ("PATCH", {"fieldManager": "me"}, "application/merge-patch+json", {"data": None}),
    ]


def test_an_object_can_be_created_in_a_namespace_that_it_does_not_name() -> None:
    paths: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        return httpx2.Response(201, json={})

    client(answer).create(SECRET, {"metadata": {"name": "db"}}, "shop")
    client(answer).create(NAMESPACE, {"metadata": {"name": "shop"}})
    assert paths == ["/api/v1/namespaces/shop/secrets", "/api/v1/namespaces"]


def test_a_status_without_words_is_told_by_its_number() -> None:
    assert str(error_of_status({"code": 504})) == "HTTP status 504"
    assert error_of_status({}).is_temporary


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "\x00", "clusters: 1\ncontexts: 2", "clusters: []\ncontexts: []\nusers: []\ncurrent-context: x"],
)
def test_a_kubeconfig_that_is_none_is_told_as_such(content: str, tmp_path: Any) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(ConfigError):
        read_config(tmp_path / "config")


def test_a_certificate_that_is_none_is_a_fault_of_the_configuration(tmp_path: Any) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(ConfigError, match="certificate"):
        Client(config_of("https://api", authority=tmp_path / "ca.crt"))


def test_a_token_takes_the_place_of_the_user() -> None:
    user = with_token(CONFIG, "other").user
    assert user is not None
    assert user.token == "other"
