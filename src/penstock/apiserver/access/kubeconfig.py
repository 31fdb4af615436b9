"""The files that let kubectl and client libraries in."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from penstock.kube.kinds import Obj
from penstock.runtime.files import write_private
from penstock.web import own_authority


def write(path: Path, *, server: str, authority: bytes, user: str, token: str) -> None:
    """Writes a kubeconfig with one context, readable by its owner only."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    write_private(path, encoded(document(cluster, user=user, token=token)))


def document(cluster: Obj, *, user: str, token: str, namespace: str = "default") -> Obj:
    """A kubeconfig with one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "penstock",
        "clusters": [{"name": "penstock", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "penstock", "context": {"cluster": "penstock", "user": user, "namespace": namespace}}],
        "preferences": {},
    }


def for_user(original: Path, *, user: str, token: str, namespace: str) -> bytes:
    """A kubeconfig for somebody else, to the API that an existing one leads to."""
    cluster = yaml.safe_load(original.read_bytes())["clusters"][0]["cluster"]
    return encoded(document(cluster, user=user, token=token, namespace=namespace))


def encoded(config: Obj) -> bytes:
    """The file's content."""
    return yaml.safe_dump(config, sort_keys=False).encode()


# The certificate of the API: of the data folder's own authority, and with the names that clients have for the API.

SPAN = own_authority.Span(lasts=timedelta(days=365), renewed_before=timedelta(days=30))
_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")


def ensure(folder: Path, *hosts: str) -> None:
    """Makes what is missing or does not fit any more: `ca.crt`, `ca.key`, `server.crt`, `server.key`."""
    own_authority.server(folder, "server", (*_HOSTS, *hosts), SPAN, datetime.now(UTC))
