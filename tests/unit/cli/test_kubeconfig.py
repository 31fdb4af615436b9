"""`penstock kubeconfig`: files for others, signed with the key of the data folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from penstock.apiserver.access import identity, kubeconfig
from penstock.apiserver.access.identity import COMPONENTS
from penstock.apiserver.access.signing_keys import load_signer
from penstock.cli import app
from penstock.cli.kubeconfig import _revoke
from penstock.runtime.errors import UserError

runner = CliRunner()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    kubeconfig.ensure_certificate(tmp_path / "pki", "127.0.0.1")
    authority = (tmp_path / "pki" / "ca.crt").read_bytes()
    path, server = tmp_path / "kubeconfig", "https://127.0.0.1:1"
    kubeconfig.write_kubeconfig(path, server=server, authority=authority, user="root", token="t")
    load_signer(tmp_path / "pki")
    return tmp_path


def test_a_kubeconfig_for_a_user(data: Path) -> None:
    result = runner.invoke(app, ["kubeconfig", "--as", "jane", "--group", "shop", "--data-dir", str(data)])
    assert result.exit_code == 0, result.output
    config = yaml.safe_load(result.output)
    assert config["clusters"] == yaml.safe_load((data / "kubeconfig").read_text())["clusters"]
    assert config["contexts"][0]["context"] == {"cluster": "penstock", "user": "jane", "namespace": "default"}
    claims = load_signer(data / "pki").read(config["users"][0]["user"]["token"], time.time())
    assert claims is not None
    user = identity.user_of_user_token(claims)
    assert (user.name, user.groups) == ("jane", ("shop", "system:authenticated"))
    assert claims["exp"] - int(claims["iat"]) == 24 * 3600


def test_a_file_is_for_its_owner_only(data: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "out" / "jane"
    arguments = ["kubeconfig", "--as", "jane", "--namespace", "shop", "-o", str(wanted), "--data-dir", str(data)]
    assert runner.invoke(app, arguments).output == ""
    assert wanted.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(wanted.read_text())["contexts"][0]["context"]["namespace"] == "shop"


def test_the_administrators_without_a_name(data: Path) -> None:
    assert runner.invoke(app, ["kubeconfig", "--data-dir", str(data)]).output == (data / "kubeconfig").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--as", "a", "--service-account", "b/c"], 2, "--as and --service-account cannot be combined"),
        (["--service-account", "b"], 2, "NAMESPACE/NAME"),
        (["--group", "b"], 2, "--group requires a user"),
        (["--as", "a", "--hours", "0"], 2, "--hours"),
        (["--service-account", "b/c"], 1, "is unreachable"),
        (["--as", "system:serviceaccount:b:c"], 1, "is unreachable"),
        (["--as", "a", "-o", "/"], 1, "cannot be written"),
    ],
)
def test_what_cannot_be_made(data: Path, arguments: list[str], code: int, told: str) -> None:
    result = runner.invoke(app, ["kubeconfig", *arguments, "--data-dir", str(data)], env={"COLUMNS": "300"})
    assert result.exit_code == code, result.output
    assert told in result.output


def test_a_folder_without_an_api(tmp_path: Path) -> None:
    result = runner.invoke(app, ["kubeconfig", "--as", "a", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "penstock dev" in result.output


@pytest.mark.parametrize("user", COMPONENTS)
def test_a_token_of_the_data_folder_is_ended_with_those_of_all_components(user: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        _revoke(tmp_path, user)
    assert (told.value.remedy or "").endswith("and start it: each component gets a new token.")
