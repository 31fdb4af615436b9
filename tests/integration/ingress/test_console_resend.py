"""The console sends events once more to a real ingress, with tokens of a real API, over TLS; and where an API key is
wanted, the command that it shows works.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from penstock.cli import app as command
from penstock.console.app import application
from penstock.console.console import Console
from penstock.contract.routes import Access, ApiKey, Policy, Target, Version
from penstock.engine.jars import jar_cache
from penstock.ingress.authorization import digest_of
from penstock.operations.login_link import token_in
from penstock.settings import Settings
from tests.integration.ingress.ingress_processes import KEY, ingress_process, publish, stored
from tests.running import running_kafka, with_held_ports
from tests.waiting import eventually

AUDIENCE = "eventing.knative.dev/broker/shop/orders"
TILL = "system:serviceaccount:shop:till"


@dataclass
class World:
    """Kafka, the API and an ingress with two Brokers: `orders` asks for tokens, `closed` for keys."""

    settings: Settings

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.settings.data_dir / "kubeconfig"

    def kubectl(self, *arguments: str) -> str:
        """What kubectl says."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            ["kubectl", *arguments], capture_output=True, text=True, timeout=120, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def send(self, *arguments: str, stdin: str | None = None) -> None:
        """`penstock send`, which is accepted."""
        line = ["send", *arguments, "--kubeconfig", str(self.kubeconfig)]
        sent = CliRunner().invoke(command, line, input=stdin)
        assert sent.exit_code == 0, sent.output

    def places(self, ident: str) -> list[str]:
        """The pages of the events with this id."""
        offsets: dict[int, int] = {}
        found = []
        for headers, _, partition, _ in stored(self.settings):
            offset = offsets.get(partition, 0)
            offsets[partition] = offset + 1
            if headers["ce_id"].decode() == ident:
                found.append(f"/events/{partition}/{offset}")
        return found

    @contextlib.contextmanager
    def browser(self, token: str = "") -> Iterator[TestClient]:
        """A browser in front of a console, with a session of the token's owner or of the administrator."""
        console = Console(self.settings.model_copy(update={"metrics": False}), asyncio.Event())
        origin = "http://127.0.0.1:8081"
        headers = {"accept": "text/html", "origin": origin, "sec-fetch-site": "same-origin"}
        app = application(console)
        with TestClient(app, base_url=origin, headers=headers, follow_redirects=False) as browser:
            entered = browser.post("/login", data={"token": token or token_in(self.kubeconfig)})
            assert entered.status_code == 303, entered.text
            yield browser
            assert browser.portal is not None
            browser.portal.call(app.state.events.close)
        console.close()


@contextlib.contextmanager
def api_process(settings: Settings) -> Iterator[None]:
    """The API of these settings, ready."""
    file = settings.data_dir / "settings-api.json"
    file.write_text(settings.model_dump_json())
    line = [sys.executable, "-m", "penstock.engine.child", "apiserver", "--settings", str(file)]
    with (settings.data_dir / "api.log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)
    try:
        ready = ["kubectl", "--kubeconfig", str(settings.data_dir / "kubeconfig"), "get", "--raw", "/readyz"]
        eventually(lambda: subprocess.run(ready, capture_output=True, timeout=120, check=False).returncode == 0)
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, jar_folders: jar_cache.Jars) -> Iterator[World]:
    """All of it."""
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("resend"), history=False))
    made = World(settings)
    with running_kafka(settings, jar_folders), api_process(settings):
        made.kubectl("create", "namespace", "shop")
        made.kubectl("-n", "shop", "create", "serviceaccount", "till")
        orders = Access(AUDIENCE, (Policy("tills", (TILL,)),))
        closed = Access(keys=(ApiKey("till", digest_of(KEY)),))
        uids = {name: broker(made, name) for name in ("orders", "closed")}
        targets = [
            Target(uids[name], "Broker", "shop", name, (f"/shop/{name}",), access=access, transport="strict")
            for name, access in (("orders", orders), ("closed", closed))
        ]
        publish(settings, *targets, Version(1, targets=2))
        with ingress_process(settings, settings.data_dir):
            for name, audience in (("orders", AUDIENCE), ("closed", "")):
                authority = (settings.data_dir / "pki" / "ca.crt").read_text()
                url = f"https://127.0.0.1:{settings.tls_port}/shop/{name}"
                status = {"status": {"address": {"url": url, "CACerts": authority, "audience": audience or None}}}
                patch = ("patch", "broker", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
                made.kubectl("-n", "shop", *patch)
            yield made


def broker(made: World, name: str) -> str:
    """Makes a Broker; its uid."""
    CliRunner().invoke(
        command, ["create", "broker", name, "-n", "shop", "--no-wait", "--kubeconfig", str(made.kubeconfig)]
    )
    return made.kubectl("-n", "shop", "get", "broker", name, "-o", "jsonpath={.metadata.uid}")


@pytest.fixture(scope="module")
def event(world: World) -> str:
    """The page of an event that the till has sent to `orders`."""
    to = ("--broker", "orders", "--namespace", "shop", "--service-account", "till")
    world.send("{}", "--id", "first", *to)
    return world.places("first")[0]


def test_an_event_goes_again_with_a_token_of_the_account(world: World, event: str) -> None:
    with world.browser() as browser:
        page = browser.get(event)
        assert 'name="account" value="default"' in page.text, page.text
        before = len(world.places("first"))
        sent = browser.post(f"{event}/resend", data={"account": "till"})
        assert (sent.status_code, "resent=broker" in sent.headers.get("location", "")) == (303, True), sent.text
        assert len(world.places("first")) == before + 1


def test_an_account_that_may_not_send_or_is_not_there_is_told(world: World, event: str) -> None:
    with world.browser() as browser:
        before = len(world.places("first"))
        stranger = browser.post(f"{event}/resend", data={"account": "default"})
        assert stranger.status_code == 409
        assert "403 Forbidden: none of the event policies that apply here (tills)" in stranger.text
        assert "--service-account NAME" in stranger.text
        assert (
            "ServiceAccount shop/nobody does not exist"
            in browser.post(f"{event}/resend", data={"account": "nobody"}).text
        )
        forged = browser.post(f"{event}/resend", data={"account": "../../secrets"})
        assert "is not a valid name of a ServiceAccount" in forged.text
        assert len(world.places("first")) == before


def test_tokens_are_made_with_the_rights_of_who_signed_in(world: World, event: str) -> None:
    rules = ("--verb=*", "--resource=*.eventing.knative.dev,*.messaging.knative.dev")
    world.kubectl("create", "clusterrole", "eventing-operator", *rules)
    world.kubectl("-n", "shop", "create", "serviceaccount", "operator")
    bound = ("--clusterrole=eventing-operator", "--serviceaccount=shop:operator")
    world.kubectl("create", "clusterrolebinding", "eventing-operator", *bound)
    token = world.kubectl("-n", "shop", "create", "token", "operator").strip()
    with world.browser(token) as browser:
        assert 'name="account" value="operator"' in browser.get(event).text
        refused = browser.post(f"{event}/resend", data={"account": "till"})
        assert refused.status_code == 409
        assert "cannot create resource" in refused.text
        world.kubectl("-n", "shop", "create", "role", "tokens", "--verb=create", "--resource=serviceaccounts/token")
        bound = ("--role=tokens", "--serviceaccount=shop:operator")
        world.kubectl("-n", "shop", "create", "rolebinding", "tokens", *bound)
        assert browser.post(f"{event}/resend", data={"account": "till"}).status_code == 303


def test_where_a_key_is_wanted_the_command_that_is_shown_sends(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.txt").write_text(KEY)
    to = ("--broker", "closed", "--namespace", "shop", "--token", "@key.txt")
    world.send('{"it": "costs 5€"}', "--id", "with-key", *to)
    with world.browser() as browser:
        refused = browser.post(f"{world.places('with-key')[0]}/resend")
    assert refused.status_code == 409
    assert "401 Unauthorized: this address takes events from authenticated senders only" in refused.text
    [shown] = re.findall(r"<pre[^>]*>(.*?)</pre>", refused.text, re.DOTALL)
    printf, form, event, _, *line = shlex.split(html.unescape(shown).replace("\\\n", " "))
    assert (printf, form, line[:2]) == ("printf", "%s", ["penstock", "send"])
    world.send(*line[2:], stdin=event)
    assert len(world.places("with-key")) == 2
