"""Signing in: with a token or by a link, once; and when a session ends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
import yaml
from starlette.requests import Request
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from penstock.cli import app as command
from penstock.cli.open_console import has_display
from penstock.console import login
from penstock.console.console import Console, OperatorsOnly
from penstock.console.live import stream
from penstock.console.pages import back
from penstock.console.sessions import (
    CHECK_SECONDS,
    MOST_LINKS,
    SESSION_SECONDS,
    UNCHECKED_SECONDS,
    LoginLink,
    LoginLinks,
    Sessions,
    TokenOwner,
    seconds_left,
)
from penstock.operations.cluster_api import NotReached, UnknownToken
from penstock.operations.installation import Installation
from penstock.runtime.errors import UserError
from penstock.runtime.sockets import account_of
from penstock.settings import Settings
from tests.unit.console.console_client import BROWSER, OPERATOR, ORIGIN, SHOP, MakeClient, know_tokens

KEY = "a key of thirty-two bytes, or more"


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def console_of(client: TestClient) -> Console:
    app: Any = client.app
    found: Console = app.state.console
    return found


def made_link(client: TestClient, token: str = OPERATOR, seconds: int = 600) -> str:
    made = client.post("/login/links", data={"seconds": seconds}, headers={"authorization": f"Bearer {token}"})
    assert made.status_code == 201, made.text
    path: str = made.json()["path"]
    return path


def test_nothing_is_shown_before_a_token_was(client_of: MakeClient) -> None:
    client = client_of(token=None)
    asked = client.get("/routes?q=x&y=z")
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?to=/routes%3Fq%3Dx%26y%3Dz")
    assert client.get("/live/numbers", headers={"accept": "text/event-stream"}).status_code == 401
    script = client.get("/stack/components", headers={"sec-fetch-mode": "cors"})
    assert script.status_code == 401, "a script would put the form into its page"
    assert client.post("/login", data={"token": "bad"}).status_code == 401
    assert client.post("/login", data={"token": " "}).status_code == 401
    entered = client.post("/login", data={"token": SHOP, "to": "/routes"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/routes")
    assert SHOP not in entered.headers["set-cookie"]
    page = client.get("/routes")
    assert page.status_code == 200
    assert "Sign out" in page.text
    assert ">Stack<" not in page.text, "no rule of the API guards it, and this user may not do everything"
    assert client.post("/logout").headers["location"] == "/login"
    assert client.get("/routes").status_code == 303


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_scripts_and_other_sites_do_not_get_the_cookie(client_of: MakeClient, scheme: str) -> None:
    client = client_of(token=None, console_port=8123)
    client.base_url = f"{scheme}://127.0.0.1:8081"
    entered = client.post("/login", data={"token": OPERATOR}, headers={"origin": f"{scheme}://127.0.0.1:8081"})
    name, *flags = entered.headers["set-cookie"].lower().split("; ")
    assert name.startswith("penstock_console_8123="), "consoles of other stacks on this host have other cookies"
    assert {"httponly", "samesite=strict", "path=/"} <= set(flags)
    assert ("secure" in flags) is (scheme == "https")


def test_a_link_signs_in_once(client_of: MakeClient) -> None:
    client = client_of(token=None)
    link = made_link(client)
    for method in ("HEAD", "GET", "GET"):
        shown = client.request(method, f"{link}?to=/stack")
        assert shown.status_code == 200, "to look at a link does not use it up"
        assert "set-cookie" not in shown.headers
    assert shown.headers["referrer-policy"] == "strict-origin"
    assert "signs you in as ann" in shown.text
    entered = client.post(link, data={"to": "/stack"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/stack")
    assert entered.headers["referrer-policy"] == "no-referrer"
    assert client.get("/stack").status_code == 200
    other = client_of_same(client)
    for again in (other.get(link), other.post(link)):
        assert again.status_code == 410
        assert "has already been used" in again.text
    assert other.get("/stack").status_code == 303
    assert client.get(f"{link}?to=/stack").headers["location"] == "/stack", "who is signed in goes on"


def client_of_same(client: TestClient) -> TestClient:
    """Another browser in front of the same console."""
    return TestClient(client.app, base_url=ORIGIN, headers=BROWSER, follow_redirects=False)


def test_the_form_says_how_to_get_another_link(client_of: MakeClient, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stack.json").write_text('{"state": "ready", "components": {}}')
    gone = client_of(token=None).get("/login/links/unknown")
    assert gone.status_code == 410
    assert "penstock open" in gone.text


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic operator", "Bearer wrong", "Bearer a b"])
def test_a_link_is_made_for_the_owner_of_a_token_only(client_of: MakeClient, header: str) -> None:
    for token in (None, OPERATOR):
        client = client_of(token=token)
        refused = client.post("/login/links", data={"seconds": 600}, headers={"authorization": header})
        assert refused.status_code in (401, 409), refused.text
        assert not console_of(client).links._links


@pytest.mark.parametrize("seconds", ["", "0", "3601", "-1", "soon", "1e3", "9" * 5000])
def test_a_link_is_valid_for_an_hour_at_most(client_of: MakeClient, seconds: str) -> None:
    client = client_of(token=None)
    asked = client.post("/login/links", data={"seconds": seconds}, headers={"authorization": f"Bearer {OPERATOR}"})
    assert (asked.status_code, "from 1 to 3600" in asked.text) == (409, True)


def test_a_link_that_is_too_old_leads_to_the_form(client_of: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(token=None)
    links = console_of(client).links
    clock = Clock()
    monkeypatch.setattr(links, "_clock", clock)
    link = made_link(client, seconds=600)
    clock.now += 601
    assert client.get(link).status_code == 410
    assert client.post(link).status_code == 410


def test_a_link_of_a_token_that_was_revoked_signs_nobody_in(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(token=None)
    known = know_tokens(monkeypatch)
    link = made_link(client)
    del known[OPERATOR]
    console = console_of(client)
    monkeypatch.setattr(console, "owner_of", lambda token: Console.owner_of(console, token))
    assert client.post(link).status_code == 401
    assert client.get("/stack").status_code == 303


@pytest.mark.parametrize(
    ("token", "site", "at_once"),
    [
        (OPERATOR, "none", True),
        (OPERATOR, "cross-site", True),
        (OPERATOR, None, True),
        (SHOP, "none", True),
        (SHOP, "same-origin", True),
        (SHOP, "same-site", False),
        (SHOP, "cross-site", False),
        (SHOP, None, False),
    ],
)
def test_another_site_signs_nobody_in_as_a_user_of_its_choice(
    client_of: MakeClient, token: str, site: str | None, at_once: bool
) -> None:
    client = client_of(token=None)
    link = made_link(client, token)
    del client.headers["sec-fetch-site"]
    headers = {"sec-fetch-mode": "navigate", **({} if site is None else {"sec-fetch-site": site})}
    page = client.get(link, headers=headers).text
    assert ("/static/login.js" in page) is at_once
    assert "Sign in as " in page
    foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    assert client.post(link, headers=foreign).status_code == 403
    assert client.get(link, headers=headers).status_code == 200, "and it was not used up"


def test_codes_are_kept_as_hashes_and_not_without_end() -> None:
    clock, owner = Clock(), TokenOwner("ann", True)
    links = LoginLinks(clock)
    codes = [links.make("t", owner, None, 600) for _ in range(MOST_LINKS + 5)]
    assert len(set(codes)) == len(codes)
    assert len(links._links) == MOST_LINKS
    assert links.find(codes[4]) is None
    assert links.find(codes[5]) is not None
    assert codes[5] not in repr(links._links)
    clock.now += 601
    links.make("t", owner, None, 600)
    assert len(links._links) == 1, "what is too old is forgotten"


def test_a_link_is_for_the_account_of_this_machine_that_asked_for_it(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(token=None)
    accounts = iter([1000, 1001, 1000])
    monkeypatch.setattr(login, "account_of", lambda client, server: next(accounts))
    link = made_link(client)
    stolen = client.post(link)
    assert (stolen.status_code, "another account of this machine" in stolen.text) == (403, True)
    assert client.get("/stack").status_code == 303
    assert client.post(link).status_code == 303, "it was not used up"


@pytest.mark.parametrize(
    ("made_by", "followed_by", "passes"),
    [(7, 7, True), (7, 8, False), (7, 0, True), (7, None, True), (None, 8, True), (0, 8, True)],
)
def test_who_may_follow_a_link(made_by: int | None, followed_by: int | None, passes: bool) -> None:
    assert LoginLink("t", TokenOwner("ann", True), made_by, 0.0).is_for(followed_by) is passes


def test_the_account_behind_a_connection_is_what_linux_lists(tmp_path: Path) -> None:
    listed = tmp_path / "tcp"
    listed.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
        "   1: 0100007F:1F91 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 2 1\n"
        "   2: 0100007F:D431 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1001        0 3 1\n"
    )
    client, server = ("127.0.0.1", 0xD431), ("127.0.0.1", 8081)
    assert account_of(client, server, [listed]) == 1001
    assert account_of(("127.0.0.1", 1), server, [listed]) is None
    assert account_of(("10.0.0.7", 0xD431), server, [listed]) is None
    assert account_of(("testclient", 1), server, [listed]) is None
    assert account_of(client, server, [tmp_path / "nothing"]) is None


# --- how long a session lasts --------------------------------------------------------------------------------------


class Api:
    """What the API says of the one token."""

    def __init__(self) -> None:
        self.answer: TokenOwner | UserError = TokenOwner("ann", True)
        self.asked = 0

    def __call__(self, token: str) -> TokenOwner:
        self.asked += 1
        if isinstance(self.answer, UserError):
            raise self.answer
        return self.answer


class Browser:
    """A browser with a session."""

    def __init__(self, token: str = "token", api: Api | None = None) -> None:
        self.clock, self.api = Clock(), api or Api()
        self.sessions = Sessions(8081, self.api, self.clock)
        self.request = Request({"type": "http", "scheme": "http", "path": "/", "headers": []})
        self._cookies: dict[str, str] = {}
        self.begin(token)

    def begin(self, token: str) -> None:
        response = back("/")
        self.sessions.begin(self.request, response, token, TokenOwner("ann", True))
        [(name, number)] = re.findall(r"(\w+)=([^;]+);", response.headers["set-cookie"])[:1]
        cookie = f"{name}={number}".encode()
        self.request = Request({"type": "http", "scheme": "http", "path": "/", "headers": [(b"cookie", cookie)]})

    async def is_signed_in(self) -> bool:
        return await self.sessions.of(self.request) is not None


async def test_the_api_is_asked_again_within_a_minute_and_not_with_each_request() -> None:
    browser = Browser()
    for _ in range(10):
        assert await browser.is_signed_in()
    assert browser.api.asked == 0
    assert CHECK_SECONDS <= 60
    browser.clock.now += CHECK_SECONDS
    assert all(await asyncio.gather(*(browser.is_signed_in() for _ in range(10))))
    assert browser.api.asked == 1


async def test_a_session_ends_when_its_token_is_revoked() -> None:
    browser = Browser()
    browser.api.answer = UnknownToken("Unauthorized.")
    browser.clock.now += CHECK_SECONDS
    assert not any(await asyncio.gather(*(browser.is_signed_in() for _ in range(10))))
    browser.api.answer = TokenOwner("ann", True)
    assert not await browser.is_signed_in(), "it does not come back"


async def test_rights_that_are_lost_are_lost_here() -> None:
    browser = Browser()
    browser.api.answer = TokenOwner("ann", False)
    browser.clock.now += CHECK_SECONDS
    session = await browser.sessions.of(browser.request)
    assert session is not None
    assert not session.owner.is_operator


async def test_while_the_api_is_away_its_last_answer_counts_for_some_minutes() -> None:
    browser = Browser()
    browser.api.answer = NotReached("The API is unreachable.")
    browser.clock.now += UNCHECKED_SECONDS
    assert await browser.is_signed_in()
    browser.clock.now += CHECK_SECONDS
    for _ in range(3):
        with pytest.raises(NotReached, match="The API is unreachable"):
            await browser.is_signed_in()
    browser.api.answer = TokenOwner("ann", True)
    browser.clock.now += CHECK_SECONDS
    assert await browser.is_signed_in()


async def test_a_session_lives_no_longer_than_its_token_and_half_a_day() -> None:
    for token, seconds in (
        ("opaque", SESSION_SECONDS),
        (jwt.encode({"exp": time.time() + 90}, KEY), 90.0),
        (jwt.encode({"exp": time.time() + 1e6}, KEY), SESSION_SECONDS),
    ):
        browser = Browser(token)
        browser.clock.now += seconds - 5
        assert await browser.is_signed_in()
        browser.clock.now += 6
        assert not await browser.is_signed_in()


@pytest.mark.parametrize("claims", [{}, {"exp": "soon"}, {"exp": None}])
def test_tokens_that_do_not_say_when_they_end(claims: dict[str, Any]) -> None:
    assert seconds_left(jwt.encode(claims, KEY), time.time()) == float("inf")


async def test_signing_in_again_ends_the_session_before() -> None:
    browser = Browser()
    first = browser.request
    browser.begin("other")
    assert await browser.sessions.of(first) is None
    assert await browser.is_signed_in()


async def endless() -> AsyncGenerator[bytes]:
    while True:
        yield b"data: x\n\n"


@pytest.mark.parametrize("end", ["revoked", "lost its rights", "signed out"])
async def test_a_stream_ends_with_its_session(tmp_path: Path, end: str) -> None:
    browser, console = Browser(), Console(Settings(data_dir=tmp_path, metrics=False), asyncio.Event())
    console.sessions = browser.sessions
    request = browser.request
    request.scope["app"] = type("App", (), {"state": type("State", (), {"console": console})})
    request.state.session = await browser.sessions.of(request)

    def check() -> None:
        console.only_operators(request)

    messages = aiter(stream(request, endless(), check).body_iterator)
    assert await anext(messages) == b"data: x\n\n"
    browser.clock.now += CHECK_SECONDS
    assert await anext(messages) == b"data: x\n\n", "the API has said the same again"
    if end == "signed out":
        browser.sessions.end(request, back("/login"))
    else:
        browser.api.answer = UnknownToken("Unauthorized.") if end == "revoked" else TokenOwner("ann", False)
        browser.clock.now += CHECK_SECONDS
    with pytest.raises(StopAsyncIteration):
        await anext(messages)
    if end == "lost its rights":
        with pytest.raises(OperatorsOnly):
            check()


# --- `penstock open` -----------------------------------------------------------------------------------------------


class OpenCommand:
    """`penstock open` beside a stack of which only the console is there."""

    def __init__(self, client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._client, self.folder = client, folder
        self.opened: list[str] = []
        self.away = False
        settings = Settings(data_dir=folder)
        stack = Installation("the stack", self.kubeconfig("admin", OPERATOR), root=folder, settings=settings)
        monkeypatch.setattr("penstock.operations.installation.running_folder", lambda data_dir: folder)
        monkeypatch.setattr("penstock.operations.installation.of_stack", lambda root: stack)
        transport = httpx2.MockTransport(self._send)
        make = httpx2.Client
        monkeypatch.setattr(httpx2, "Client", lambda **_: make(transport=transport))
        monkeypatch.setattr("webbrowser.open", self._open)
        monkeypatch.setenv("DISPLAY", ":0")

    def kubeconfig(self, name: str, token: str | None) -> Path:
        """A file with the user of a token."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {} if token is None else {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        file = self.folder / name
        file.write_text(yaml.safe_dump(content))
        return file

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        if self.away:
            raise httpx2.ConnectError("connection refused")
        assert request.url.host == "127.0.0.1"
        program = TestClient(self._client.app, base_url=ORIGIN)
        answer = program.request(request.method, request.url.path, content=request.content, headers=request.headers)
        return httpx2.Response(answer.status_code, content=answer.content)

    def _open(self, link: str) -> bool:
        self.opened.append(link)
        return True

    def __call__(self, *flags: str) -> Result:
        return CliRunner().invoke(command, ["open", *flags])


@pytest.fixture
def opening(client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenCommand:
    return OpenCommand(client_of(token=None), tmp_path, monkeypatch)


def test_penstock_open_opens_a_link_that_signs_the_administrator_in(
    opening: OpenCommand, client_of: MakeClient
) -> None:
    ran = opening("routes")
    assert ran.exit_code == 0, ran.output
    link = ran.output.strip()
    assert opening.opened == [link]
    assert link.startswith(f"{ORIGIN}/login/links/")
    assert link.endswith("?to=%2Froutes")
    browser = client_of_same(opening._client)
    assert "signs you in as ann" in browser.get(link.removeprefix(ORIGIN)).text


def test_penstock_open_signs_in_another_user(opening: OpenCommand) -> None:
    file = opening.folder / "token"
    file.write_text(f"{SHOP}\n")
    for flags in (
        ("--token", f"@{file}", "--no-browser"),
        ("--kubeconfig", str(opening.kubeconfig("dev", SHOP)), "--no-browser"),
    ):
        ran = opening(*flags)
        assert ran.exit_code == 0, ran.output
        page = client_of_same(opening._client).get(ran.output.strip().removeprefix(ORIGIN)).text
        assert "signs you in as system:serviceaccount:shop:dev" in page
    assert opening.opened == []


def test_penstock_open_says_what_is_wrong(opening: OpenCommand) -> None:
    dev, nobody = opening.kubeconfig("dev", SHOP), opening.kubeconfig("nobody", None)
    for flags, code, told in (
        (("--token", "x", "--kubeconfig", str(dev)), 2, "--kubeconfig and --token cannot be combined"),
        (("--kubeconfig", str(nobody)), 2, "has no token"),
        (("--kubeconfig", str(opening.folder / "none")), 2, "cannot be used"),
        (("--token", "wrong"), 1, "rejected the token"),
    ):
        ran = opening(*flags)
        assert (ran.exit_code, told in ran.output) == (code, True), ran.output
    opening.away = True
    ran = opening()
    assert (ran.exit_code, "is unreachable" in ran.output) == (1, True)
    assert opening.opened == []


@pytest.mark.parametrize(
    ("environ", "platform", "has"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "w3m"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_without_a_screen_no_browser_is_started(environ: dict[str, str], platform: str, has: bool) -> None:
    assert has_display(environ, platform) is has
