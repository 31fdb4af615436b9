"""Every address of the console, and who gets what there: nobody, a user of one namespace, an operator."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from penstock.console.app import application
from penstock.console.console import Console
from penstock.console.events.archive import Archive
from penstock.console.sessions import UNCHECKED_SECONDS, TokenOwner
from penstock.history.reader.history import History
from penstock.kube.client import Client
from penstock.operations import cluster_api
from penstock.operations.cluster_api import BROKERS, ClusterApi, NotAllowed, NotReached, Resource, UnknownToken
from penstock.operations.installation import Installation
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from tests.unit.console.console_client import BROWSER, OPERATOR, ORIGIN, SHOP, know_tokens, signed_in
from tests.unit.console.known_api import KnownApi, Obj, broker, trigger
from tests.written import KeptRecords, event


class ApiOfShop(KnownApi):
    """An API that lets its user do everything in the namespace `shop`, and nothing elsewhere."""

    def all(self, resource: Resource, namespace: str = "") -> list[Obj]:
        self._check(namespace)
        return [one for one in super().all(resource) if one["metadata"]["namespace"] == namespace]

    def get(self, resource: Resource, namespace: str, name: str) -> Obj:
        [found] = [one for one in self.all(resource, namespace) if one["metadata"]["name"] == name]
        return found

    def create(self, resource: Resource, namespace: str, obj: Obj) -> Obj:
        self._check(namespace)
        return super().create(resource, namespace, obj)

    def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        self._check(namespace)
        return True

    def _check(self, namespace: str) -> None:
        if namespace != "shop":
            raise NotAllowed(f'forbidden: User "dev" cannot do that in the namespace "{namespace}".')


class ApiOfAll(KnownApi):
    """An API that lets its user do everything."""

    def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        return True


class Case(NamedTuple):
    """What is asked for, and the status of the answer to each."""

    method: str
    route: str
    path: str
    nobody: int
    shop: int
    operator: int
    fields: dict[str, str] | None = None


ROUTE, OWN, OTHERS = "/routes/{kind}/{namespace}/{name}", "/routes/trigger/shop/orders", "/routes/trigger/bank/payments"
EVENT = "/events/{partition:int}/{offset:int}"
CASES = [
    Case("GET", "/login", "/login", 200, 303, 303),
    Case("POST", "/login", "/login", 401, 401, 401),
    Case("POST", "/login/links", "/login/links", 401, 401, 401),
    Case("GET", "/login/links/{code}", "/login/links/x", 410, 303, 303),
    Case("POST", "/login/links/{code}", "/login/links/x", 410, 303, 303),
    Case("POST", "/logout", "/logout", 401, 303, 303),
    Case("GET", "/healthz", "/healthz", 200, 200, 200),
    Case("GET", "/static", "/static/console.css", 200, 200, 200),
    Case("GET", "/", "/", 303, 403, 200),
    Case("GET", "/map/picture", "/map/picture", 303, 403, 200),
    Case("GET", "/routes", "/routes", 303, 403, 200),
    *(
        Case(method, ROUTE + part, path + part, 303 if method == "GET" else 401, allowed, seen, fields)
        for path, allowed_at in ((OWN, True), (OTHERS, False))
        for method, part, seen, fields in (
            ("GET", "", 200, None),
            ("GET", "/replays", 200, None),
            ("GET", "/points", 200, None),
            ("POST", "/pause", 303, None),
            ("POST", "/resume", 303, None),
            ("POST", "/replay", 303, None),
            ("POST", "/stop", 303, {"replay": "r"}),
        )
        for allowed in [seen if allowed_at else 403]
    ),
    Case("GET", "/live/numbers", "/live/numbers", 303, 403, 200),
    Case("GET", "/stack", "/stack", 303, 403, 200),
    Case("GET", "/stack/components", "/stack/components", 303, 403, 200),
    Case("GET", "/stack/logs/{component}", "/stack/logs/ingress", 303, 403, 200),
    Case("GET", "/events", "/events", 303, 403, 200),
    Case("GET", "/events/live", "/events/live", 303, 403, 200),
    Case("GET", "/live/events", "/live/events", 303, 403, 200),
    Case("GET", EVENT, "/events/0/0", 303, 403, 200),
    Case("GET", f"{EVENT}/data", "/events/0/0/data", 303, 403, 200),
    Case("POST", f"{EVENT}/resend", "/events/0/0/resend", 401, 403, 409),
    Case("GET", "/deadletters", "/deadletters", 303, 403, 200),
    Case("GET", "/deadletters/replays", "/deadletters/replays", 303, 403, 200),
    Case("POST", "/deadletters/redrive", "/deadletters/redrive", 401, 403, 303, {"group": "trigger/shop/orders"}),
    Case("GET", "/playground", "/playground", 303, 403, 200),
    Case("GET", "/playground/tries", "/playground/tries", 303, 403, 200),
    Case("POST", "/playground/backtests", "/playground/backtests", 401, 403, 409, {"since": "soon"}),
    Case("GET", "/playground/backtests/{ident}", "/playground/backtests/x", 303, 403, 404),
]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A console that is about to stop, so that streams end, with an event of `bank` and a Trigger in each namespace."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "ingress.log").write_text("started\n")
    know_tokens(monkeypatch)
    objects = []
    for namespace, name in (("shop", "orders"), ("bank", "payments")):
        objects += [{**broker(), "metadata": {"name": "default", "namespace": namespace, "uid": namespace}}]
        objects += [trigger(name, metadata={"namespace": namespace})]
    apis = {OPERATOR: ApiOfAll(*objects), SHOP: ApiOfShop(*objects)}
    monkeypatch.setattr(Console, "api_of", lambda self, token: apis[token])
    stopping = asyncio.Event()
    stopping.set()
    settings = Settings(data_dir=tmp_path, metrics=False, partitions=1, history=False)
    made = application(Console(settings, stopping))
    made.state.events.archive = Archive(lambda: History(settings, lambda _: KeptRecords(events=[event(0, "one")])))
    return made


def browser(app: Any, token: str | None) -> TestClient:
    return signed_in(TestClient(app, base_url=ORIGIN, headers=BROWSER, follow_redirects=False), token)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.method} {case.path}")
def test_who_gets_what(app: Any, case: Case) -> None:
    answers = [
        browser(app, token).request(case.method, case.path, data=case.fields).status_code
        for token in (None, SHOP, OPERATOR)
    ]
    assert answers == [case.nobody, case.shop, case.operator]


def test_every_address_is_in_the_table(app: Any) -> None:
    served = {
        (method, route.path)
        for route in app.routes
        for method in ((route.methods or set()) - {"HEAD"} if isinstance(route, Route) else {"GET"})
    }
    assert all(isinstance(route, Route | Mount) for route in app.routes)
    assert served == {(case.method, case.route) for case in CASES}


@pytest.mark.parametrize("fields", [{}, {"replay": ""}])
def test_a_form_that_names_no_replay_stops_none(app: Any, fields: dict[str, str]) -> None:
    assert browser(app, OPERATOR).post(f"{OWN}/stop", data=fields).status_code == 400


def test_what_is_refused_holds_nothing_of_what_was_asked_for(app: Any) -> None:
    client = browser(app, SHOP)
    for case in CASES:
        if case.shop == 403:
            answer = client.request(case.method, case.path, data=case.fields)
            assert "payments" not in answer.text.replace(case.path, ""), case.path
            assert "dataschema" not in answer.text


def test_an_operator_may_do_everything_with_events_of_brokers_and_of_channels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: set[str] = set()

    class Api:
        def __init__(self, installation: object, *, token: str) -> None:
            self.token = token

        def __enter__(self) -> Api:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing is held."""

        def create(self, resource: Resource, namespace: str, obj: Obj) -> Obj:
            if resource.kind == "SelfSubjectReview":
                return {**obj, "status": {"userInfo": {"username": self.token}}}
            asked = obj["spec"]["resourceAttributes"]
            assert (asked["verb"], asked["resource"], asked.get("namespace")) == ("*", "*", None)
            return {**obj, "status": {"allowed": asked["group"] in allowed}}

    monkeypatch.setattr("penstock.console.console.ClusterApi", Api)
    console = Console(Settings(data_dir=tmp_path, metrics=False), asyncio.Event())
    assert console.owner_of("ann") == ("ann", False)
    allowed.add("eventing.knative.dev")
    assert console.owner_of("ann") == ("ann", False)
    allowed.add("messaging.knative.dev")
    assert console.owner_of("ann") == ("ann", True)


def test_a_refusal_of_the_api_is_told_with_its_status(app: Any) -> None:
    refused = browser(app, SHOP).get("/routes")
    assert (refused.status_code, "cannot do that" in refused.text) == (403, True)


@pytest.mark.parametrize(("status", "kind"), [(401, UnknownToken), (403, NotAllowed), (409, UserError)])
def test_an_answer_of_the_api_tells_a_token_from_a_right(
    status: int, kind: type[UserError], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, json={"message": "no."}))
    monkeypatch.setattr(cluster_api, "Client", partial(Client, transport=transport))
    with ClusterApi(Installation("this penstock", url="https://api")) as api, pytest.raises(UserError) as told:
        api.all(BROKERS)
    assert type(told.value) is kind
    assert "no." in told.value.what


def test_an_api_that_stays_away_is_told_and_ends_no_session(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client, sessions = browser(app, OPERATOR), app.state.console.sessions
    now = sessions._clock()
    monkeypatch.setattr(sessions, "_clock", lambda: now + UNCHECKED_SECONDS + 1)
    check = sessions._check

    def away(token: str) -> TokenOwner:
        raise NotReached("The API of this penstock does not answer: connection refused.")

    monkeypatch.setattr(sessions, "_check", away)
    refused = client.get("/stack")
    assert (refused.status_code, "does not answer" in refused.text) == (502, True)
    assert client.get("/login").status_code == 200
    monkeypatch.setattr(sessions, "_clock", lambda: now + UNCHECKED_SECONDS + 60)
    monkeypatch.setattr(sessions, "_check", check)
    assert client.get("/stack").status_code == 200
