"""Kubeconfigs for kubectl and client libraries, and the certificate of the API server.

The certificate is signed by the data folder's own authority, which every kubeconfig names.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from penstock.kube.kinds import Obj
from penstock.runtime.files import write_private
from penstock.web import own_authority

SPAN = own_authority.Span(lasts=timedelta(days=365), renewed_before=timedelta(days=30))
_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")


def write_kubeconfig(path: Path, *, server: str, authority: bytes, user: str, token: str) -> None:
    """Writes a kubeconfig with one context, readable by its owner only."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    write_private(path, _encoded(_kubeconfig(cluster, user=user, token=token)))


def _kubeconfig(cluster: Obj, *, user: str, token: str, namespace: str = "default") -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "penstock",
        "clusters": [{"name": "penstock", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "penstock", "context": {"cluster": "penstock", "user": user, "namespace": namespace}}],
        "preferences": {},
    }


def kubeconfig_for(original: Path, *, user: str, token: str, namespace: str) -> bytes:
    """A kubeconfig for another user, to the API of an existing one."""
    cluster = yaml.safe_load(original.read_bytes())["clusters"][0]["cluster"]
    return _encoded(_kubeconfig(cluster, user=user, token=token, namespace=namespace))


def _encoded(config: Obj) -> bytes:
    return yaml.safe_dump(config, sort_keys=False).encode()


def ensure_certificate(folder: Path, *hosts: str) -> None:
    """Creates or renews `ca.crt`, `ca.key`, `server.crt` and `server.key` where they are missing or no longer valid."""
    own_authority.server_certificate(folder, "server", (*_HOSTS, *hosts), SPAN, datetime.now(UTC))
