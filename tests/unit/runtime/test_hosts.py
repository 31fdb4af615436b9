"""What others are told of the machine."""

from __future__ import annotations

import socket

import pytest

from penstock.runtime import hosts
from penstock.settings import Settings


@pytest.fixture(autouse=True)
def _forget() -> None:
    hosts.reachable.cache_clear()


def named(monkeypatch: pytest.MonkeyPatch, name: str, *addresses: str) -> None:
    """The machine has this name, which leads to these addresses."""
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    def look_up(*_: object, **__: object) -> list[tuple[object, ...]]:
        if not addresses:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, 1, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_a_host_that_is_one_is_told_as_it_is() -> None:
    assert hosts.reachable("10.1.2.3") == hosts.from_here("10.1.2.3") == "10.1.2.3"
    assert hosts.reachable("fd00::1") == hosts.from_here("fd00::1") == "[fd00::1]"


def test_for_all_addresses_others_are_told_the_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "box.example", "10.1.2.3")
    settings = Settings(host="0.0.0.0", port=81, tls_port=82)
    assert (settings.ingress_url, settings.tls_ingress_url) == ("http://box.example:81", "https://box.example:82")
    assert hosts.from_here("0.0.0.0") == "127.0.0.1"
    assert hosts.from_here("::") == "[::1]"


@pytest.mark.parametrize("addresses", [(), ("127.0.1.1",)])
def test_a_name_that_leads_nowhere_is_not_told(monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]) -> None:
    named(monkeypatch, "box.invalid", *addresses)
    monkeypatch.setattr(hosts, "_addresses", lambda: iter(["fd00::7", "10.1.2.3"]))
    assert hosts.reachable("0.0.0.0") == "[fd00::7]"


def test_a_given_base_names_the_host_of_both() -> None:
    settings = Settings(address_base="http://events.example/", tls_port=82)
    assert (settings.ingress_url, settings.tls_ingress_url) == ("http://events.example", "https://events.example:82")
    given = Settings(address_base="http://events.example", tls_address_base="https://secure.example/")
    assert given.tls_ingress_url == "https://secure.example"


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("box", False)],
)
def test_loopback_is_told_from_the_rest(host: str, is_loopback: bool) -> None:
    assert hosts.is_loopback(host) == is_loopback


def test_the_machine_has_a_name() -> None:
    assert hosts.own_names()[0] == socket.gethostname()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:password@host/path?a=b@c", "https://***@host/path?a=b@c"),
        ("https://user:p@ss:w@host:1/", "https://***@host:1/"),
        ("http://token@host", "http://***@host"),
        ("https://us er:p w@host", "https://***@host"),
        ("//user:password@host/", "//***@host/"),
        ("https://host/@user", "https://host/@user"),
        ("https://host?a=x@y", "https://host?a=x@y"),
        ("http://host", "http://host"),
        ("error at http://a:b@c/ and http://d:e@f", "error at http://***@c/ and http://***@f"),
        ("", ""),
    ],
)
def test_user_and_password_of_a_url_are_not_shown(url: str, shown: str) -> None:
    assert hosts.without_userinfo(url) == shown
