"""A real kube-apiserver with its etcd, and the roles of penstock beside it as processes.

There is no node: no kubelet, scheduler or controller manager. So their part is played here where one is needed: tests
start the roles with the credentials and settings that their Pods would have, and write the Endpoints of the webhook.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.engine.ports import free_ports
from penstock.runtime.errors import UserError
from penstock.web.certificates import issue_certificate, make_authority
from tools.cluster import kubernetes_binaries as binaries
from tools.cluster.processes import tied

READY_SECONDS = 240
NAMESPACE = "knative-eventing"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


@dataclass
class RealApi:
    """A running API server, and how the administrator reaches it."""

    folder: Path
    url: str
    address: str
    """Of this machine, as the API server may call it: Endpoints on the loopback are refused."""
    kubeconfig: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    """Where the roles serve."""

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Runs kubectl as the administrator; what it printed."""
        ran = subprocess.run(
            [kubectl_program(), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check and ran.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)} failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
        return ran.stdout if check else ran.stdout + ran.stderr

    def install(self, *flags: str) -> str:
        """`penstock install` into this cluster; what it printed."""
        command = [sys.executable, "-m", "penstock.cli", "install", "--kubeconfig", str(self.kubeconfig), *flags]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"penstock install failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def account_kubeconfig(self, account: str) -> Path:
        """A kubeconfig with a token of the ServiceAccount, as its Pod would have it."""
        token = self.kubectl("create", "token", account, "-n", NAMESPACE).strip()
        path = self.folder / f"kubeconfig-{account}"
        path.write_text(yaml.safe_dump(kubeconfig(self.url, self.folder / "ca.crt", token)))
        return path

    def start_role(self, role: str, account: str, **settings: Any) -> int:
        """Starts a role as its Pod would run; the port it answers probes on."""
        (health,) = free_ports(1)
        variables = self.pod_variables(
            self.account_kubeconfig(account), data_dir=self.folder / f"data-{role}", health_port=health, **settings
        )
        self._start(role, [sys.executable, "-m", "penstock.cli", role], {**os.environ, **variables})
        return health

    def pod_variables(self, kubeconfig: Path | None, **settings: Any) -> dict[str, str]:
        """The variables of a role's Pod, but that it is on this machine; without a kubeconfig it has no credentials."""
        mine = {"host": self.address, **({"kubeconfig": kubeconfig} if kubeconfig else {}), **settings}
        return {
            **self._data("configmap", "penstock-settings"),
            **self._secret("penstock-secrets"),
            **{f"PENSTOCK_{name.upper()}": str(value) for name, value in mine.items()},
        }

    def _data(self, kind: str, name: str) -> dict[str, str]:
        flags = ("-n", NAMESPACE, "-o", "json", "--ignore-not-found")
        found: dict[str, str] = json.loads(self.kubectl("get", kind, name, *flags) or "{}").get("data") or {}
        return found

    def _secret(self, name: str) -> dict[str, str]:
        return {key: base64.b64decode(value).decode() for key, value in self._data("secret", name).items()}

    def wait_ready(self, role: str, health: int) -> None:
        """Waits until the role's probe says that it is ready."""

        def ready() -> bool:
            with urllib.request.urlopen(f"http://{self.address}:{health}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)

        self.await_(role, ready)

    def await_(self, name: str, condition: Any) -> None:
        """Waits for the condition as long as the process lives."""
        deadline = time.monotonic() + READY_SECONDS
        last = ""
        while time.monotonic() < deadline:
            if self.processes[name].poll() is not None:
                raise RuntimeError(f"{name} ended with {self.processes[name].returncode}:\n{self.log(name)}")
            try:
                if condition():
                    return
            except Exception as error:
                last = repr(error)
            time.sleep(0.2)
        raise RuntimeError(f"{name} is not ready after {READY_SECONDS} s ({last}):\n{self.log(name)}")

    def log(self, name: str) -> str:
        """The end of what the process printed."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-40:])

    def stop(self, name: str) -> None:
        """Ends the process in order."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def audited(self) -> list[dict[str, Any]]:
        """Every request that a ServiceAccount has made."""
        return [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]

    def lead_service(self, service: str, port_name: str, port: int) -> None:
        """Has the Service lead to a process here, as the controller of Endpoints would."""
        subset = {"addresses": [{"ip": self.address}], "ports": [{"name": port_name, "port": port}]}
        metadata = {"name": service, "namespace": NAMESPACE}
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]}
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(endpoints))

    def _start(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        with (self.folder / f"{name}.log").open("wb") as output, tied(command) as (whole, fds):
            self.processes[name] = subprocess.Popen(
                whole, stdout=output, stderr=subprocess.STDOUT, env=env, pass_fds=fds, cwd=self.folder
            )


def kubectl_program() -> str:
    """kubectl from the PATH."""
    found = shutil.which("kubectl")
    if found is None:
        raise UserError("kubectl is not on the PATH.", "Install kubectl 1.31 or newer.")
    return found


def kubeconfig(url: str, authority: Path, token: str) -> dict[str, Any]:
    """A kubeconfig of one user."""
    trusted = base64.b64encode(authority.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {"server": url, "certificate-authority-data": trusted}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user"}}],
        "current-context": "real",
    }


@contextlib.contextmanager
def real_api(folder: Path) -> Iterator[RealApi]:
    """Starts etcd and kube-apiserver in the folder; ends them and every role afterwards."""
    if missing := binaries.missing(*binaries.PROGRAMS):
        raise UserError(f"{' and '.join(missing)} {binaries.version()} not built yet.", "Run `make kube-apiserver`.")
    address = own_address()
    etcd_port, peer_port, port = free_ports(3)
    token = secrets.token_hex(16)
    api = RealApi(folder, f"https://{address}:{port}", address, folder / "kubeconfig")
    _write_pki(folder, address)
    (folder / "tokens.csv").write_text(f"{token},kubernetes-admin,admin,system:masters\n")
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
    api.kubeconfig.write_text(yaml.safe_dump(kubeconfig(api.url, folder / "ca.crt", token)))
    try:
        api._start("etcd", _etcd(folder, etcd_port, peer_port))
        api._start("kube-apiserver", _apiserver(folder, etcd_port, port, address))
        api.await_("kube-apiserver", lambda: _answers(api.url, folder / "ca.crt"))
        yield api
    finally:
        for name in reversed(list(api.processes)):
            api.stop(name)


def own_address() -> str:
    """Of this machine, other than the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # nothing is sent
        except OSError:
            raise UserError(
                "This machine has no address but the loopback, which the API server refuses as an Endpoint.",
                "Give it one, such as that of a network interface.",
            ) from None
        address = str(probe.getsockname()[0])
    return address


def _answers(url: str, authority: Path) -> bool:
    context = ssl.create_default_context(cafile=str(authority))
    with urllib.request.urlopen(f"{url}/readyz", timeout=5, context=context) as answer:
        return bool(answer.status == 200)


def _write_pki(folder: Path, address: str) -> None:
    now, lasts = datetime.now(UTC), timedelta(days=1)
    authority = make_authority("real", lasts, now)
    server = issue_certificate(authority, "kube-apiserver", [address, "kubernetes.default.svc"], lasts, now)
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "server.crt").write_bytes(server.certificate)
    (folder / "server.key").write_bytes(server.key)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "accounts.key").write_bytes(key.private_bytes(encoding, private, serialization.NoEncryption()))


def _etcd(folder: Path, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(binaries.folder() / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _apiserver(folder: Path, etcd_port: int, port: int, address: str) -> list[str]:
    return [
        str(binaries.folder() / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--enable-aggregator-routing=true",  # webhooks are called by their Endpoints: nobody routes Services here
        f"--audit-policy-file={folder / 'audit.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--v=1",
    ]
