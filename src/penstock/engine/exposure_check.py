"""Who may reach the ingress: this machine, or others too. Others only where they are asked who they are."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.runtime.errors import UserError
from penstock.runtime.hosts import is_loopback
from penstock.settings import Settings

AUTHENTICATION = "authentication-oidc"
_QUESTION = "SELECT body FROM objects WHERE resource = 'configmaps' AND namespace = ? AND name = ?"


def check(settings: Settings) -> None:
    """Raises UserError where everybody on the network could send events, and nobody has said that this is meant."""
    if is_loopback(settings.host) or settings.insecure_open:
        return
    if settings.kubeconfig is None and features.enabled_by(AUTHENTICATION, stored_features(settings.data_dir)):
        return
    raise UserError(
        f"The ingress would listen on {settings.host} and accept events from everyone who can reach it: "
        f"the feature {AUTHENTICATION} is not enabled.",
        "Enable it first (docs/security.md), listen on --host 127.0.0.1, or set --insecure-open (insecure_open = true) "
        "to let everyone on that network send events.",
    )


def stored_features(data_dir: Path) -> Mapping[str, str]:
    """The ConfigMap `config-features` as the embedded API left it; empty where there is none yet."""
    database = data_dir / "api.db"
    if not database.exists():
        return {}
    with (
        contextlib.suppress(sqlite3.Error, ValueError),
        contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection,
    ):
        row = connection.execute(_QUESTION, (SYSTEM_NAMESPACE, features.CONFIG_MAP)).fetchone()
        return {} if row is None else dict(json.loads(row[0]).get("data") or {})
    return {}
