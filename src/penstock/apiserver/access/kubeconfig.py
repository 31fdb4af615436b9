"""The files that let kubectl and client libraries in."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from penstock.apiserver.access.identity import write_private


def write(path: Path, *, server: str, authority: bytes, user: str, token: str) -> None:
    """Writes a kubeconfig with one context, readable by its owner only."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "penstock",
        "clusters": [
            {
                "name": "penstock",
                "cluster": {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "penstock", "context": {"cluster": "penstock", "user": user, "namespace": "default"}}],
        "preferences": {},
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
