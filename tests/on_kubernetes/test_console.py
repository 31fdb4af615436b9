"""The console on a real cluster: over TLS, as its Pod runs, and with no rights but those of whoever has signed in."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from penstock.engine.ports import free_ports
from tools.cluster.kubernetes import NAMESPACE, RealApi

ACCOUNT = "penstock-console"
TRIGGER: dict[str, Any] = {
    "apiVersion": "eventing.knative.dev/v1",
    "kind": "Trigger",
    "metadata": {"name": "seen-by-the-console", "namespace": "default"},
    "spec": {"broker": "default", "subscriber": {"uri": "http://subscriber.example.org/"}},
}


class Browser:
    """Somebody who looks at the console."""

    def __init__(self, url: str, authority: Path) -> None:
        self.url = url
        self._client = httpx2.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=authority),
            headers={"Accept": "text/html"},
            trust_env=False,
            timeout=60,
        )

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str) -> httpx2.Response:
        return self._client.get(path)

    def sign_in(self, token: str) -> httpx2.Response:
        return self._client.post("/login", data={"token": token, "to": "/routes"}, headers={"Origin": self.url})


@pytest.fixture(scope="module")
def console(cluster: RealApi) -> Iterator[tuple[str, Path]]:
    """Where the console is, and what is to be trusted."""
    (port,) = free_ports(1)
    health = cluster.start_role("console", ACCOUNT, console_port=port, tls="true")
    authority = cluster.folder / "data-console" / "pki" / "ca.crt"

    def ready() -> bool:
        trusted = ssl.create_default_context(cafile=authority)
        url = f"https://{cluster.address}:{health}/readyz"
        return httpx2.get(url, verify=trusted, trust_env=False).status_code == 200

    cluster.await_("console", ready)
    yield f"https://{cluster.address}:{port}", authority
    cluster.stop("console")


@pytest.fixture
def browser(console: tuple[str, Path]) -> Iterator[Browser]:
    """Somebody who has not signed in yet."""
    with Browser(*console) as browser:
        yield browser


def account(cluster: RealApi, name: str, *, role: str | None = None) -> str:
    """The token of a new ServiceAccount that may do what a ClusterRole says."""
    cluster.kubectl("create", "serviceaccount", name, "-n", "default")
    if role is not None:
        whom = f"--serviceaccount=default:{name}"
        cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", whom)
    return cluster.kubectl("create", "token", name, "-n", "default").strip()


def requests_of_the_console(cluster: RealApi) -> list[dict[str, Any]]:
    own = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    return [one for one in cluster.audited() if one["user"]["username"] == own]


def test_it_shows_nothing_before_somebody_has_signed_in(browser: Browser) -> None:
    answer = browser.get("/routes")
    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/login")
    assert browser.sign_in("guessed").status_code == 401


@pytest.fixture
def trigger(cluster: RealApi) -> Iterator[str]:
    """The name of a Trigger that is there."""
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(TRIGGER))
    yield TRIGGER["metadata"]["name"]
    cluster.kubectl("delete", "-f", "-", stdin=yaml.safe_dump(TRIGGER))


def test_it_shows_what_the_owner_of_a_token_may_see(cluster: RealApi, browser: Browser, trigger: str) -> None:
    signed_in = browser.sign_in(account(cluster, "viewer", role="knative-eventing-namespaced-view"))
    assert signed_in.status_code == 303
    assert "secure" in signed_in.headers["set-cookie"].lower()
    page = browser.get("/routes")
    assert page.status_code == 200
    assert trigger in page.text
    assert browser.get("/stack").status_code == 403, "logs are for operators"


def test_somebody_without_rights_sees_nothing(cluster: RealApi, browser: Browser, trigger: str) -> None:
    browser.sign_in(account(cluster, "nobody"))
    page = browser.get("/routes")
    assert page.status_code != 200
    assert trigger not in page.text
    assert re.search("forbidden|cannot list", page.text)


def test_an_operator_sees_the_stack(cluster: RealApi, browser: Browser) -> None:
    browser.sign_in(account(cluster, "operator", role="cluster-admin"))
    page = browser.get("/stack")
    assert page.status_code == 200
    assert "run elsewhere" in page.text


def test_it_asked_for_nothing_in_its_own_name(cluster: RealApi) -> None:
    assert requests_of_the_console(cluster) == []
