"""The console shows users of one namespace nothing of another, and changes nothing there for them."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

import pytest
from starlette.routing import Route

from penstock.console.app import application
from penstock.console.console import Console
from tests.integration.isolation.tenants import BANK, PRIVATE, SHOP, Answer, Caller, Listener, objects_in
from tests.running import Stack
from tests.waiting import eventually

OF_EVERYBODY = ("/login", "/logout", "/healthz", "/static")
MEANT = {
    "kind": "trigger",
    "namespace": BANK,
    "name": "ledger",
    "partition": "0",
    "offset": "0",
    "component": "control",
    "ident": "1",
}
"""What stands in the paths of pages."""
USERS = ("viewer", "developer", "eventing", "admin")


class Browser:
    """Asks the console as a browser does, and keeps its cookie."""

    def __init__(self, stack: Stack, token: str = "") -> None:
        self._url = stack.settings.console_url.rstrip("/")
        self._cookie = ""
        if token:
            assert self.ask("POST", "/login", {"token": token, "to": "/"}).status == 303

    def ask(self, method: str, path: str, fields: Mapping[str, str] | None = None, accept: str = "text/html") -> Answer:
        """One request; where it is answered with a redirect, that is the answer."""
        connection = http.client.HTTPConnection(urlsplit(self._url).netloc, timeout=60)
        headers = {"Accept": accept, "Origin": self._url, "Sec-Fetch-Site": "same-origin", "Cookie": self._cookie}
        body = None if fields is None else urlencode(fields)
        try:
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request(method, path, body, {**headers, **kind} if body is not None else headers)
            response = connection.getresponse()
            self._cookie = (response.headers["set-cookie"] or self._cookie).partition(";")[0]
            return Answer(response.status, response.read().decode(errors="replace"))
        finally:
            connection.close()


@pytest.fixture(scope="module")
def pages(stack: Stack) -> list[tuple[str, str]]:
    """Every page of the console with its method, as the application has them."""
    console = Console(stack.settings, asyncio.Event())
    routes = [route for route in application(console).routes if isinstance(route, Route)]
    console.close()
    eventually(lambda: Browser(stack).ask("GET", "/healthz").status == 200, 180)
    return [
        (method, path)
        for route in routes
        if not (path := re.sub(r"\{(\w+)(:\w+)?\}", lambda part: MEANT.get(part[1], "1"), route.path)).startswith(
            OF_EVERYBODY
        )
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


def asked(browser: Browser, pages: list[tuple[str, str]]) -> list[tuple[str, str, Answer]]:
    """What each page answers; forms are sent empty, and with everything that forms have."""
    filled = {"replay": "again", "since": "1h", "dry_run": "on", "to": "/", "route": "trigger/bank/ledger"}
    query = urlencode({"route": "trigger/bank/ledger", "namespace": BANK, "kind": "Trigger", "name": "ledger"})
    found = []
    for method, path in pages:
        if method == "GET":
            accept = "text/event-stream" if path.startswith("/live/") else "text/html"
            found += [(method, url, browser.ask(method, url, None, accept)) for url in (path, f"{path}?{query}")]
        else:
            found += [(method, path, browser.ask(method, path, fields)) for fields in ({}, filled)]
    return found


def state(admin: Caller) -> object:
    """What pages could change in `bank`."""
    return {key: (one["metadata"].get("annotations"), one.get("spec")) for key, one in objects_in(admin, BANK).items()}


def test_without_a_session_nothing_is_shown(
    stack: Stack, admin: Caller, bank: Listener, pages: list[tuple[str, str]]
) -> None:
    before = state(admin)
    assert len(pages) > 20
    for method, path, answer in asked(Browser(stack), pages):
        assert answer.status == (303 if method == "GET" and not path.startswith("/live/") else 401), (method, path)
        assert PRIVATE not in answer.body
    assert state(admin) == before


@pytest.mark.parametrize("user", USERS)
def test_pages_show_nothing_of_another_namespace_and_change_nothing(
    stack: Stack, admin: Caller, users: Mapping[str, Caller], pages: list[tuple[str, str]], user: str
) -> None:
    before, browser = state(admin), Browser(stack, users[user].token)
    for method, path, answer in asked(browser, pages):
        shown = answer.body.replace("trigger/bank/ledger", "")
        assert answer.status in (400, 403, 404) or (method == "GET" and answer.status == 200), (method, path, answer)
        assert PRIVATE not in shown, (method, path)
        if answer.status == 200:
            assert "ledger" not in shown, (method, path)
            assert "payments" not in shown, (method, path)
    assert state(admin) == before


@pytest.mark.parametrize(
    "path",
    [
        "/routes/trigger/shop/..%2F..%2Fbank%2Ftriggers%2Fledger",
        "/routes/trigger/shop%2F..%2Fbank/ledger",
        "/routes/trigger/shop/../../trigger/bank/ledger",
        "/stack/logs/..%2Flogs%2Fcontrol",
        "/stack/logs/../../kubeconfig",
        "/static/..%2F..%2F..%2Fkubeconfig",
        "/static/../../pki/tokens.json",
    ],
)
def test_no_spelling_of_a_page_shows_another_namespace(stack: Stack, users: Mapping[str, Caller], path: str) -> None:
    answer = Browser(stack, users["admin"].token).ask("GET", path)
    assert answer.status in (400, 403, 404), answer
    assert "kind: Trigger" not in answer.body


@pytest.fixture(scope="module")
def shown(users: Mapping[str, Caller]) -> str:
    """The page of a Trigger in `shop`."""
    spec = {"broker": "gone", "subscriber": {"uri": "http://127.0.0.1:9/"}}
    made = {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": {"name": "shown"}, "spec": spec}
    users["developer"].made(made)
    return f"/routes/trigger/{SHOP}/shown"


def test_a_session_shows_nothing_more_when_its_account_is_gone(stack: Stack, admin: Caller, shown: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "leaver"}}
    admin.made(account)
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SHOP}/rolebindings/admin"
    subjects = [*admin.get(path)["subjects"], {"kind": "ServiceAccount", "name": "leaver", "namespace": SHOP}]
    assert admin.patch(path, {"subjects": subjects}).status == 200
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    accounts = f"/api/v1/namespaces/{SHOP}/serviceaccounts/leaver"
    token = admin.call("POST", f"{accounts}/token", asked).object["status"]["token"]
    browser = Browser(stack, token)
    assert "kind: Trigger" in browser.ask("GET", shown).body
    assert admin.call("DELETE", accounts).status == 200
    eventually(lambda: browser.ask("GET", shown).status in (303, 401))
    assert "kind: Trigger" not in browser.ask("GET", shown).body


def test_a_form_that_names_no_replay_stops_none(stack: Stack, users: Mapping[str, Caller], shown: str) -> None:
    replays = f"/apis/penstock.dev/v1alpha1/namespaces/{SHOP}/replays"
    for name in ("first", "second"):
        made = {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "Replay",
            "metadata": {"name": name},
            "spec": {"target": {"kind": "Trigger", "name": "shown"}, "dryRun": True},
        }
        users["admin"].made(made)
    browser = Browser(stack, users["admin"].token)
    for fields in ({}, {"replay": ""}, {"replay": "."}, {"replay": "?labelSelector="}):
        browser.ask("POST", f"{shown}/stop", fields)
        assert {one["metadata"]["name"] for one in users["admin"].get(replays)["items"]} >= {"first", "second"}


def test_data_of_an_event_with_any_id_can_be_downloaded(stack: Stack, admin: Caller, bank: Listener) -> None:
    seen, ident = len(bank.at("/ledger")), "ключ-\u2028/../x"
    stack.penstock("send", json.dumps({"n": 1}), "--id", ident, "--broker", "payments", "--namespace", BANK)
    eventually(lambda: len(bank.at("/ledger")) > seen)
    operator = Browser(stack, admin.token)

    def found() -> str | None:
        page = operator.ask("GET", f"/events?id={quote(ident)}").body
        link = re.search(r"/events/\d+/\d+", page)
        return link[0] if link else None

    answer = operator.ask("GET", f"{eventually(found)}/data")
    assert answer == (200, '{"n": 1}')
