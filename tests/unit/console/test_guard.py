"""Who reaches the console, who may change something by it, and what a browser may do with its answers."""

from __future__ import annotations

import pytest

from penstock.console.guard import MAX_BODY_BYTES, is_loopback, names_of, refused_host, refused_origin
from penstock.console.login import local_path
from tests.unit.console.console_client import ORIGIN, MakeClient

NAMES = names_of("127.0.0.1", ["console.example.org"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8081", "localhost", "localhost:8081", "[::1]:8081", "10.0.0.7:80", "Console.Example.ORG"]
)
def test_addresses_and_known_names_are_believed(host: str) -> None:
    assert refused_host(host, NAMES) is None


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:8081", "127.0.0.1.evil.example", "[::1", "a b"]
)
def test_a_name_that_is_not_known_may_be_a_foreign_page(host: str | None) -> None:
    assert refused_host(host, NAMES) is not None


def test_only_this_machine_is_loopback() -> None:
    assert [host for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.1.1.1", "::") if is_loopback(host)] == [
        "127.0.0.1",
        "::1",
        "localhost",
    ]


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"host": "a:1", "origin": "http://a:1", "sec-fetch-site": "same-origin"}, True),
        ({"host": "a:1", "origin": "http://a:1"}, True),
        ({"host": "a:1", "sec-fetch-site": "same-origin"}, True),
        ({"host": "a:1", "origin": "http://b:1"}, False),
        ({"host": "a:1", "origin": "null"}, False),
        ({"host": "a:1", "origin": "http://a:1", "sec-fetch-site": "cross-site"}, False),
        ({"host": "a:1", "origin": "http://a:2", "sec-fetch-site": "same-site"}, False),
        ({"host": "a:1"}, False),
    ],
)
def test_changes_come_from_own_pages_only(headers: dict[str, str], passes: bool) -> None:
    assert (refused_origin("POST", headers) is None) is passes


def test_another_site_may_link_here_and_not_read() -> None:
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    fetched = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert refused_origin("GET", linked) is None
    assert refused_origin("GET", fetched) is not None


def test_every_answer_keeps_the_browser_careful(client_of: MakeClient) -> None:
    client = client_of()
    for answer in (client.get("/routes"), client.get("/nowhere"), client.get("/routes", headers={"host": "evil"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"


def test_rebinding_and_foreign_forms_get_no_page(client_of: MakeClient) -> None:
    client = client_of()
    assert client.get("/routes").status_code == 200
    assert client.get("/routes", headers={"host": "evil.example:8081"}).status_code == 421
    assert client.post("/logout", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/login", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413


def test_pages_hold_no_inline_script_or_style(client_of: MakeClient) -> None:
    page = client_of().get("/routes").text
    assert "style=" not in page
    assert " on" + "click" not in page
    assert page.count("<script") == page.count("<script src=") + page.count('<script type="module" src=')


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "", None])
def test_signing_in_leads_nowhere_else(to: str | None) -> None:
    assert local_path(to) == "/"
    assert ORIGIN not in local_path(to)
