"""`penstock send` to a real ingress: over TLS, with an API key, and what it says where either is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.cli.sending_target import TOKEN_VARIABLE
from tests.integration.ingress.ingress_processes import KEY, IngressProcess, stored_ids


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    (tmp_path / "key.txt").write_text(KEY + "\n")
    return tmp_path / "key.txt"


def send(ingress: IngressProcess, *arguments: str, secure: bool = True, token: str | None = None) -> Result:
    settings = ingress.settings
    base = f"https://127.0.0.1:{settings.tls_port}" if secure else f"http://127.0.0.1:{settings.port}"
    return CliRunner().invoke(
        app, ["send", "{}", "--to", f"{base}/shop/closed", *arguments], env={TOKEN_VARIABLE: token}
    )


def authority(ingress: IngressProcess) -> str:
    return str(ingress.settings.data_dir / "pki" / "ca.crt")


def test_with_key_and_authority_an_event_is_accepted(ingress: IngressProcess, key_file: Path) -> None:
    by_file = send(ingress, "--id", "by-file", "--ca-file", authority(ingress), "--token", f"@{key_file}")
    assert (by_file.exit_code, by_file.output[:18]) == (0, "accepted: by-file "), by_file.output
    by_variable = send(ingress, "--id", "by-variable", "--ca-file", authority(ingress), token=KEY)
    assert by_variable.exit_code == 0, by_variable.output
    assert {"by-file", "by-variable"} <= set(stored_ids(ingress.settings))


@pytest.mark.parametrize("token", [[], ["--token", "pk_guessed"]])
def test_without_a_key_that_counts_it_is_told_how_to_get_one(ingress: IngressProcess, token: list[str]) -> None:
    refused = send(ingress, "--ca-file", authority(ingress), *token)
    assert refused.exit_code == 1
    assert ": 401 " in refused.output
    assert ("unknown API key" if token else "authenticated senders only") in refused.output
    assert "penstock keys create" in refused.output
    assert "pk_guessed" not in refused.output


def test_a_server_that_is_not_trusted_gets_neither_event_nor_key(ingress: IngressProcess, key_file: Path) -> None:
    refused = send(ingress, "--id", "unseen", "--token", f"@{key_file}")
    assert refused.exit_code == 1
    assert "its certificate is not trusted" in refused.output
    assert "--ca-file FILE" in refused.output
    assert "unseen" not in stored_ids(ingress.settings)


def test_over_the_wrong_protocol_it_is_told_so(ingress: IngressProcess, key_file: Path) -> None:
    refused = send(ingress, "--token", f"@{key_file}", secure=False)
    assert (refused.exit_code, "404" in refused.output, "HTTPS only" in refused.output) == (1, True, True)
    url = f"https://127.0.0.1:{ingress.settings.port}/shop/closed"
    no_tls = CliRunner().invoke(app, ["send", "{}", "--to", url])
    assert (no_tls.exit_code, "does not use TLS" in no_tls.output) == (1, True), no_tls.output
    no_http = CliRunner().invoke(app, ["send", "{}", "--to", f"http://127.0.0.1:{ingress.settings.tls_port}/"])
    assert (no_http.exit_code, "Use https://" in no_http.output) == (1, True), no_http.output


def test_many_refusals_are_explained_once(ingress: IngressProcess) -> None:
    refused = send(ingress, "--ca-file", authority(ingress), "--count", "5")
    assert refused.output.count("not accepted by") == 5
    assert refused.output.count("penstock keys create") == 1
    assert "0 accepted, 5 not" in refused.output
