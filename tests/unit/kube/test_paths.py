"""No name changes which namespace or which resource of the API a request is for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dispatcher import secrets as secret_requests
from penstock.dispatcher.secrets import NoSecret, SecretName, SecretRequests
from penstock.kube.client import AsyncClient, Client
from penstock.kube.config import config_of
from penstock.kube.errors import NotFound
from penstock.kube.kinds import CONFIG_MAP, NAMESPACE, POD, SECRET, Collection, Key, Kind
from penstock.kube.paths import NotASegment, api_path
from penstock.oidc import tokens
from penstock.oidc.tokens import NoToken, TokenRequests, WantedToken
from penstock.operations.cluster_api import BROKERS
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.processes.environment import ConfigError
from tests.examples import examples

URL = "http://127.0.0.1:1"
CONFIG = config_of(URL, token="t")
LEADING_ELSEWHERE = (
    "../../bank/secrets/db",
    "../../knative-eventing/serviceaccounts/eventing-controller",
    "..",
    ".",
    "",
    "a/b",
    "%2e%2e",
    "db%2Fstatus",
)
TRICKY = st.text(st.sampled_from([*"./%?#&=:;@ a\\~*\n\x00", "é", "\ud800"]), max_size=8) | st.text(max_size=8)
OF_SHOP = {"metadata": {"namespace": "shop", "name": "p", "uid": "1"}, "spec": {}}


class Server(httpx2.MockTransport):
    """An API that has nothing, and remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked: list[str] = []

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode().partition('?')[0]}")
        return httpx2.Response(404, json={"kind": "Status", "code": 404, "message": "not found"})


def parts(asked: str) -> list[str]:
    """The path as a server takes it apart, after it has decoded it."""
    return unquote(asked.partition(" ")[2]).split("/")[1:]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (api_path("v1", "secrets", "shop", "db"), "/api/v1/namespaces/shop/secrets/db"),
        (api_path("apps/v1", "deployments"), "/apis/apps/v1/deployments"),
        (
            api_path("v1", "serviceaccounts", "shop", "till", "token"),
            "/api/v1/namespaces/shop/serviceaccounts/till/token",
        ),
        (
            api_path("rbac.authorization.k8s.io/v1", "clusterroles", name="system:a b?c"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3Fc",
        ),
    ],
)
def test_paths_are_made_of_segments(path: str, shown: str) -> None:
    assert path == shown


@pytest.mark.parametrize("name", LEADING_ELSEWHERE)
@pytest.mark.parametrize("part", ["plural", "namespace", "name", "subresource"])
def test_a_part_that_leads_elsewhere_is_refused(part: str, name: str) -> None:
    with pytest.raises(NotASegment, match="may not"):
        api_path(**{"api_version": "v1", "plural": "secrets", "namespace": "shop", "name": "db", part: name})


@pytest.mark.parametrize("version", ["", "/v1", "../v1", "a/b/v1", "apps/..", "apps/v1%2f"])
def test_an_api_version_that_leads_elsewhere_is_refused(version: str) -> None:
    with pytest.raises(NotASegment, match="may not"):
        api_path(version, "secrets", "shop", "db")
    with pytest.raises(NotASegment, match="may not"), Client(CONFIG, transport=Server()) as client:
        client.get(Kind(f"a/{version}", "Secret"), Key("shop", "db"))


def test_any_name_is_one_segment_or_refused() -> None:
    server = Server()
    client = Client(CONFIG, transport=server)

    @examples(4)
    @given(namespace=TRICKY, name=TRICKY)
    def asked(namespace: str, name: str) -> None:
        server.asked.clear()
        try:
            client.get(SECRET, Key(namespace, name))
        except NotASegment:
            assert server.asked == []
        except NotFound:
            assert [parts(one) for one in server.asked] == [["api", "v1", "namespaces", namespace, "secrets", name]]

    with client:
        asked()


async def watched(client: AsyncClient, kind: Collection, namespace: str | None = None) -> None:
    async with client.watch(kind, "7", namespace) as changes:
        await anext(changes)


async def test_every_call_has_its_path() -> None:
    server = Server()
    client = AsyncClient(CONFIG, transport=server)
    secret = {"metadata": {"name": "db", "namespace": "shop"}}
    calls: list[tuple[Callable[[], Awaitable[Any]], str]] = [
        (lambda: client.get(SECRET, Key("shop", "db")), "GET /api/v1/namespaces/shop/secrets/db"),
        (lambda: client.get(NAMESPACE, Key("", "shop")), "GET /api/v1/namespaces/shop"),
        (lambda: client.create(SECRET, secret), "POST /api/v1/namespaces/shop/secrets"),
        (lambda: client.replace(SECRET, secret), "PUT /api/v1/namespaces/shop/secrets/db"),
        (lambda: client.replace_status(POD, secret), "PUT /api/v1/namespaces/shop/pods/db/status"),
        (lambda: client.patch(POD, Key("shop", "p"), {}), "PATCH /api/v1/namespaces/shop/pods/p"),
        (lambda: client.patch_status(POD, Key("shop", "p"), {}), "PATCH /api/v1/namespaces/shop/pods/p/status"),
        (lambda: client.delete(SECRET, Key("shop", "db")), "DELETE /api/v1/namespaces/shop/secrets/db"),
        (lambda: client.token(Key("shop", "till"), {}), "POST /api/v1/namespaces/shop/serviceaccounts/till/token"),
        (lambda: client.is_allowed({}), "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"),
        (lambda: client.list(SECRET), "GET /api/v1/secrets"),
        (lambda: client.list(SECRET, "shop"), "GET /api/v1/namespaces/shop/secrets"),
        (lambda: watched(client, SECRET), "GET /api/v1/secrets"),
        (lambda: watched(client, CONFIG_MAP, "shop"), "GET /api/v1/namespaces/shop/configmaps"),
        (
            lambda: client.get(Kind("apps/v1", "Deployment"), Key("shop", "web")),
            "GET /apis/apps/v1/namespaces/shop/deployments/web",
        ),
    ]
    for call, asked in calls:
        with pytest.raises(NotFound, match="not found"):
            await call()
        assert server.asked.pop() == asked
    await client.close()


@pytest.mark.parametrize(
    ("kind", "namespace"),
    [(SECRET, ""), (NAMESPACE, "shop"), (Kind("rbac.authorization.k8s.io/v1", "ClusterRole"), "a")],
)
async def test_a_key_leads_to_nothing_in_another_scope(kind: Kind, namespace: str) -> None:
    server = Server()
    client = AsyncClient(CONFIG, transport=server)
    obj = {"metadata": {"name": "x", "namespace": namespace}}
    calls = (
        client.get(kind, Key(namespace, "x")),
        client.delete(kind, Key(namespace, "x")),
        client.patch(kind, Key(namespace, "x"), {}),
        client.create(kind, obj),
        client.replace(kind, obj),
    )
    for call in calls:
        with pytest.raises(NotFound, match=r"may not be empty|are not in namespaces"):
            await call
    assert server.asked == []
    await client.close()


@pytest.mark.parametrize("name", LEADING_ELSEWHERE)
async def test_the_node_reads_nothing_by_a_name_that_leads_elsewhere(name: str) -> None:
    server = Server()
    api = PodApi(AsyncClient(CONFIG, transport=server))
    for kind in ("secret", "configmap"):
        with pytest.raises(ConfigError, match="may not"):
            await api.files(OF_SHOP, kind, name)
    with pytest.raises(ConfigError, match="may not"):
        await api.token(OF_SHOP, name)
    assert server.asked == []


@pytest.mark.parametrize("name", LEADING_ELSEWHERE)
async def test_no_token_and_no_secret_by_a_name_that_leads_elsewhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    monkeypatch.setattr(tokens, "connect", lambda _: AsyncClient(CONFIG, transport=server))
    monkeypatch.setattr(secret_requests, "api_client", lambda _: httpx2.AsyncClient(base_url=URL, transport=server))
    for account in (("shop", name), (name, "till")):
        with pytest.raises(NoToken, match="cannot be the name of a ServiceAccount"):
            await TokenRequests(Settings())(WantedToken(*account, "aud"))
        with pytest.raises(NoSecret, match="may not"):
            await SecretRequests(Settings())(SecretName(*account))
    assert server.asked == []


async def test_an_object_that_no_path_leads_to_does_not_exist() -> None:
    assert await AsyncClient(CONFIG, transport=Server()).read(SECRET, Key("shop", "a/b")) is None


def test_commands_tell_what_is_wrong_with_a_name() -> None:
    assert BROKERS.path("", None) == "/apis/eventing.knative.dev/v1/brokers"
    with pytest.raises(UserError, match=r'Broker: invalid resource name "\.\./x": \[may not contain \'/\'\]'):
        BROKERS.path("shop", "../x")
    with pytest.raises(UserError, match="resource name may not be empty"):
        BROKERS.path("shop", "")
