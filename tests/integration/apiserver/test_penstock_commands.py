"""`penstock create`, `get`, `apply`, `pause`, `explain` and `delete` against an API, by kubeconfig and by URL."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import typer
import typer.main
import yaml
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.cli.names import completion_of
from penstock.cli.options import complete_namespaces
from penstock.cli.sending_target import token_of
from penstock.operations.installation import find
from penstock.operations.sending import SendingAddress
from penstock.runtime.errors import UserError
from tests.integration.apiserver.api_process import Server

Run = Callable[..., Result]


@pytest.fixture
def run(server: Server, namespace: str) -> Run:
    """A command in the test's own namespace."""

    def invoke(*arguments: str, stdin: str | None = None, ok: bool = True) -> Result:
        options = ["--namespace", namespace, "--kubeconfig", str(server.data_dir / "kubeconfig")]
        result = CliRunner().invoke(app, [*arguments, *options], input=stdin)
        assert (result.exit_code == 0) == ok, result.output
        return result

    return invoke


def test_objects_without_kubectl(run: Run, tmp_path: Path) -> None:
    assert run("create", "broker", "--no-wait").output == "broker/default created\n"
    make = ("create", "trigger", "greetings", "--subscriber", "http://127.0.0.1:9000/", "--filter", "type=greeting")
    assert run(*make, "--no-wait").output == "trigger/greetings created\n"
    assert run(*make, "--no-wait").output == "trigger/greetings unchanged\n"
    lines = run("get", "triggers").output.splitlines()
    assert lines[0].split()[:2] == ["NAME", "BROKER"]
    assert lines[1].split()[:2] == ["greetings", "default"]
    found = json.loads(run("get", "trigger/greetings", "--json").output)
    assert found["spec"]["filters"] == [{"exact": {"type": "greeting"}}]
    assert run("pause", "greetings").output == "trigger/greetings is paused\n"
    assert "it is paused" in run("explain", "greetings", "--type", "greeting").output
    assert run("resume", "trigger/greetings").output == "trigger/greetings is resumed\n"
    assert "does not get this event" in run("explain", "greetings", "--type", "other", ok=False).output
    file = tmp_path / "channel.yaml"
    file.write_text("apiVersion: messaging.knative.dev/v1\nkind: Channel\nmetadata: {name: orders}\n")
    assert run("apply", "--file", str(file)).output == "channel/orders created\n"
    assert run("apply", "--file", "-", stdin=file.read_text()).output == "channel/orders applied\n"
    assert run("delete", "--file", str(file)).output == "channel/orders deleted\n"
    assert run("delete", "trigger", "greetings").output == "trigger/greetings deleted\n"
    assert run("delete", "trigger/greetings").output == "trigger/greetings not found\n"


def test_create_changes_what_its_options_name_and_nothing_else(run: Run) -> None:
    def delivery() -> object:
        return json.loads(run("get", "broker/b", "--json").output)["spec"].get("delivery")

    run("create", "broker", "b", "--retry", "3", "--no-wait")
    assert delivery() == {"retry": 3}
    changed = run("create", "broker", "b", "--dead-letter-sink", "http://127.0.0.1:9001/", "--no-wait").output
    assert changed == (
        'broker/b changed\n  spec.delivery.deadLetterSink: not set -> {"uri": "http://127.0.0.1:9001/"}\n'
    )
    assert delivery() == {"retry": 3, "deadLetterSink": {"uri": "http://127.0.0.1:9001/"}}
    assert run("create", "broker", "b", "--no-wait").output == "broker/b unchanged\n"
    assert run("create", "broker", "b", "--retry", "5", "--no-wait").output == (
        "broker/b changed\n  spec.delivery.retry: 3 -> 5\n"
    )


def test_a_dead_letter_sink_comes_with_retries(run: Run) -> None:
    sink = ("--dead-letter-sink", "http://127.0.0.1:9001/", "--no-wait")
    run("create", "broker", "kept", *sink)
    run("create", "trigger", "t", "--broker", "kept", "--subscriber", "http://127.0.0.1:9000/", *sink)
    run(
        "create", "trigger", "once", "--broker", "kept", "--subscriber", "http://127.0.0.1:9000/", "--retry", "0", *sink
    )
    for name, retry in (("broker/kept", 10), ("trigger/t", 10), ("trigger/once", 0)):
        assert json.loads(run("get", name, "--json").output)["spec"]["delivery"]["retry"] == retry


def test_no_replay_of_what_does_not_exist(run: Run) -> None:
    for command in ("redrive", "replay"):
        assert (
            "Trigger test-no-replay-of-what-does-not-exist/nosuch does not exist"
            in run(command, "trigger/nosuch", ok=False).output
        )
    assert json.loads(run("get", "replays", "--json").output)["items"] == []


def test_kinds_that_are_in_one_version_only_are_found_and_others_in_the_one_that_is_preferred(run: Run) -> None:
    run("get", "eventpolicies")
    kinds = {line.split()[0]: line.split()[1] for line in run("get", "--kinds").output.splitlines()[1:]}
    assert kinds["eventpolicies"] == "eventing.knative.dev/v1alpha1"
    assert kinds["triggers"] == "eventing.knative.dev/v1"


def test_keys_of_a_broker(run: Run) -> None:
    run("create", "broker", "orders", "--no-wait")
    assert run("keys", "list", "orders").output == "Broker orders has no keys and does not require one.\n"
    secret = run("keys", "create", "orders", "till").output.strip()
    assert secret.startswith("pk_")
    run("keys", "create", "orders", "kiosk", "--events", "2.5", "--bytes", "1000000")
    till, kiosk = run("keys", "list", "orders").output.splitlines()
    assert re.fullmatch(r"till  expires \S+Z", till)
    assert re.fullmatch(r"kiosk  expires \S+Z  2.5 events/s  1,000,000 bytes/s", kiosk)
    assert secret not in run("get", "broker/orders", "--yaml").output
    assert "already has a key till" in run("keys", "create", "orders", "till", ok=False).output
    assert "has no key nobody" in run("keys", "revoke", "orders", "nobody", ok=False).output
    assert run("keys", "revoke", "orders", "till").output == "Key till of Broker orders has been revoked.\n"
    assert "has no keys left and still requires one" in run("keys", "revoke", "orders", "kiosk").output
    assert "has no keys left and still requires one" in run("keys", "list", "orders").output
    run("keys", "open", "orders")
    assert run("keys", "list", "orders").output == "Broker orders has no keys and does not require one.\n"


def test_a_token_of_a_service_account_is_for_the_broker_that_is_sent_to(server: Server, namespace: str) -> None:
    broker = {"metadata": {"namespace": namespace, "name": "orders"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "till"}}
    with find(kubeconfig=server.kubeconfig).api() as api:
        api.create(api.resource("serviceaccounts"), namespace, account)
        token = token_of(api, "till", broker, SendingAddress("http://h/", audience="for/orders"))
        claims = jwt.decode(token, options={"verify_signature": False})
        assert (claims["aud"], claims["sub"]) == (["for/orders"], f"system:serviceaccount:{namespace}:till")
        with pytest.raises(UserError, match=f"ServiceAccount {namespace}/nobody does not exist"):
            token_of(api, "nobody", broker, SendingAddress("http://h/", audience="for/orders"))
        with pytest.raises(UserError, match="does not accept tokens"):
            token_of(api, "till", broker, SendingAddress("http://h/"))


def completed(command: str, flag: str, beginning: str) -> list[str]:
    """What a shell offers for the value of a flag."""
    asked: Any = typer.main.get_command(app)
    asked = asked.commands[command]
    [option] = [parameter for parameter in asked.params if parameter.name == flag]
    return [word.value for word in option.shell_complete(typer.Context(asked), beginning)]


def test_what_is_wrong_is_a_sentence(run: Run) -> None:
    assert "does not exist" in run("pause", "nobody", ok=False).output
    assert "Unknown kind nonsense" in run("get", "nonsense", ok=False).output
    assert "does not exist" in run("send", "{}", ok=False).output
    bad = run("create", "trigger", "t", "--subscriber", "http://s/", "--filter", "{exact: {Type: x}}", ok=False)
    assert "invalid key name" in bad.output


def test_an_installation_elsewhere_by_url_and_token(
    server: Server, namespace: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load((server.data_dir / "kubeconfig").read_text())
    cluster = config["clusters"][0]["cluster"]
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    monkeypatch.setenv("PENSTOCK_URL", cluster["server"])
    monkeypatch.setenv("PENSTOCK_CA", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("PENSTOCK_NAMESPACE", namespace)
    monkeypatch.setenv("PENSTOCK_TOKEN", "nobody's")
    result = CliRunner().invoke(app, ["get", "brokers"])
    assert (result.exit_code, "rejected the token" in result.output) == (1, True), result.output
    monkeypatch.setenv("PENSTOCK_TOKEN", config["users"][0]["user"]["token"])
    run("create", "broker", "far", "--no-wait")
    assert "far" in CliRunner().invoke(app, ["get", "brokers"]).output
    assert completion_of("broker", "trigger")("f") == ["far"]
    assert completion_of("broker")("broker/") == ["broker/far"]
    assert namespace in complete_namespaces(namespace[:5])
    for command in ("lag", "send", "tail", "replay"):
        assert namespace in completed(command, "namespace", namespace[:5])
    monkeypatch.setenv("PENSTOCK_URL", "https://127.0.0.1:1")
    assert completion_of("broker")("f") == []
