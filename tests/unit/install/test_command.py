"""`penstock install --print`: what its flags choose, and what it refuses before it does anything."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli import app

Obj = dict[str, Any]


def printed(*flags: str) -> dict[tuple[str, str], Obj]:
    ran = CliRunner().invoke(app, ["install", "--print", *flags])
    assert ran.exit_code == 0, ran.output
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(ran.output)}


def test_flags_choose_what_is_there() -> None:
    objects = printed(
        *("--no-console", "--history", "--set", "history_uri=s3a://events/history"),
        *("--tls", "cert-manager", "--tls-secret", "ours", "--tls-issuer", "Issuer/own"),
    )
    assert ("Deployment", "penstock-console") not in objects
    assert ("Deployment", "penstock-history") in objects
    spec = objects["Certificate", "penstock"]["spec"]
    assert (spec["secretName"], spec["issuerRef"]) == ("ours", {"kind": "Issuer", "name": "own"})
    settings = objects["ConfigMap", "penstock-settings"]["data"]
    assert settings["PENSTOCK_TLS"] == "true"
    assert settings["PENSTOCK_HISTORY_URI"] == "s3a://events/history"


def test_rights_in_every_namespace_are_left_out_where_no_source_needs_them() -> None:
    bindings = {name for kind, name in printed() if kind == "ClusterRoleBinding"}
    left = {
        name for kind, name in printed("--no-api-server-sources", "--no-sink-bindings") if kind == "ClusterRoleBinding"
    }
    assert bindings - left == {"penstock-control-impersonation", "penstock-control-bindings"}


def test_a_setting_can_be_set_to_nothing() -> None:
    settings = printed("--tls", "secret", "--set", "tls_ca_file=")["ConfigMap", "penstock-settings"]["data"]
    assert settings["PENSTOCK_TLS_CA_FILE"] == ""


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--history"], "history_uri"),
        (["--history", "--set", "history_uri=/var/history"], "a history_uri that every Pod can reach"),
        (["--tls-issuer", "own"], "KIND/NAME"),
    ],
)
def test_what_cannot_be_is_told(flags: list[str], told: str) -> None:
    ran = CliRunner().invoke(app, ["install", "--print", *flags])
    assert ran.exit_code == 2
    assert told in ran.output
