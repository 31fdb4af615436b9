"""Access as people use it: kubectl as somebody else, tokens, and files that `penstock kubeconfig` makes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml
from typer.testing import CliRunner

from penstock.cli import app
from tests.integration.apiserver.api_process import Server


def as_file(file: Path, *arguments: str, ok: bool = True) -> str:
    """kubectl with another kubeconfig."""
    done = subprocess.run(
        ["kubectl", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "KUBECONFIG": str(file), "HOME": str(file.parent)},
        check=False,
    )
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def made(server: Server, file: Path, *arguments: str) -> Path:
    """The file that `penstock kubeconfig` writes."""
    flags = ["--data-dir", str(server.data_dir), "--output", str(file)]
    result = CliRunner().invoke(app, ["kubeconfig", *arguments, *flags])
    assert result.exit_code == 0, result.output
    assert file.stat().st_mode & 0o777 == 0o600
    return file


def test_a_developer_gets_what_edit_says(
    server: Server, kubectl: Callable[..., str], namespace: str, tmp_path: Path
) -> None:
    kubectl("create", "rolebinding", "dev", "--clusterrole=edit", "--group=developers")
    jane = made(server, tmp_path / "jane", "--as", "jane", "--group", "developers", "--namespace", namespace)
    assert "jane" in as_file(jane, "auth", "whoami")
    as_file(jane, "create", "configmap", "mine", "--from-literal=a=b")
    assert "No resources found" in as_file(jane, "get", "brokers,triggers")
    told = as_file(jane, "get", "rolebindings", ok=False)
    assert (
        'rolebindings.rbac.authorization.k8s.io is forbidden: User "jane" cannot list resource "rolebindings" '
        f'in API group "rbac.authorization.k8s.io" in the namespace "{namespace}"'
    ) in told
    assert "cannot create resource" in as_file(
        jane, "create", "rolebinding", "more", "--clusterrole=admin", "--user=jane", ok=False
    )
    assert "configmaps is forbidden" in as_file(jane, "get", "configmaps", "-n", "knative-eventing", ok=False)


def test_can_i(kubectl: Callable[..., str], namespace: str) -> None:
    account = f"system:serviceaccount:{namespace}:default"
    kubectl("create", "rolebinding", "view", "--clusterrole=view", f"--serviceaccount={namespace}:default")
    listed = kubectl("auth", "can-i", "--list", "--as", account)
    brokers = next(line for line in listed.splitlines() if line.startswith("*.eventing.knative.dev"))
    assert brokers.endswith("[get list watch]")
    assert "yes" in kubectl("auth", "can-i", "list", "brokers", "--as", account)
    assert "no" in kubectl("auth", "can-i", "create", "brokers", "--as", account, ok=False)
    assert "yes" in kubectl("auth", "can-i", "get", "/version", "--as", account)
    assert "yes" in kubectl("auth", "can-i", "*", "*")


def test_a_token_lives_as_long_as_its_account(
    server: Server, kubectl: Callable[..., str], namespace: str, tmp_path: Path
) -> None:
    kubectl("create", "serviceaccount", "bot")
    kubectl("create", "role", "reads", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reads", "--role=reads", f"--serviceaccount={namespace}:bot")
    token = kubectl("create", "token", "bot", "--duration=20m").strip()
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "token").write_text(yaml.safe_dump(config))
    file = made(server, tmp_path / "file", "--service-account", f"{namespace}/bot")
    for path in (tmp_path / "token", file):
        as_file(path, "get", "configmaps", "-n", namespace)
        assert "secrets is forbidden" in as_file(path, "get", "secrets", "-n", namespace, ok=False)
    kubectl("delete", "serviceaccount", "bot")
    kubectl("create", "serviceaccount", "bot")
    for path in (tmp_path / "token", file):
        assert "You must be logged in" in as_file(path, "get", "configmaps", "-n", namespace, ok=False)
    told = kubectl("create", "token", "bot", "--duration=1m", ok=False)
    assert "may not specify a duration less than 10 minutes" in told


def test_nobody_grants_more_than_they_have(kubectl: Callable[..., str], tmp_path: Path) -> None:
    kubectl("create", "rolebinding", "anna", "--clusterrole=admin", "--user=anna")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    }
    (tmp_path / "role.yaml").write_text(yaml.safe_dump(role))
    for verb in (("create",), ("apply",), ("apply", "--server-side")):
        told = kubectl(*verb, "--as=anna", "-f", str(tmp_path / "role.yaml"), ok=False)
        assert "is attempting to grant RBAC permissions not currently held" in told
    kubectl("create", "--as=anna", "role", "less", "--verb=get", "--resource=pods")
