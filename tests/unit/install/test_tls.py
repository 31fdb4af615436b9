"""TLS on a cluster: one Secret, yours or cert-manager's, that every role shows, is probed with, and is believed by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.install.manifests import chosen
from penstock.install.tls import CERTIFICATE_FOLDER, MODES, Tls
from penstock.install.values import Values, completed
from penstock.settings import Settings
from penstock.web import certificates
from penstock.web.certificates import KeyPair
from penstock.web.tls_server import ServerTls, trusted_by_clients

Obj = dict[str, Any]
DEFAULT = Values(service_monitor=True)
SECURE = [mode for mode in MODES if mode != "off"]


def objects(tls: Tls) -> dict[tuple[str, str], Obj]:
    return {(one.obj["kind"], one.obj["metadata"]["name"]): one.obj for one in chosen(replace(DEFAULT, tls=tls))}


def pods(made: dict[tuple[str, str], Obj]) -> list[Obj]:
    return [one["spec"]["template"]["spec"] for (kind, _), one in made.items() if kind == "Deployment"]


@pytest.mark.parametrize("mode", SECURE)
def test_every_role_has_the_certificate_and_is_probed_with_it(mode: str) -> None:
    for pod in pods(objects(Tls(mode, secret="ours"))):
        (volume,) = [one for one in pod["volumes"] if one["name"] == "certificate"]
        assert volume["secret"] == {"secretName": "ours", "optional": False}, "a Pod waits until it is there"
        (container,) = pod["containers"]
        (mount,) = [one for one in container["volumeMounts"] if one["name"] == "certificate"]
        assert mount["mountPath"] == CERTIFICATE_FOLDER
        assert "subPath" not in mount, "Kubernetes would never renew the files"
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_without_tls_nothing_waits_for_a_certificate() -> None:
    made = objects(Tls())
    for pod in pods(made):
        (volume,) = [one for one in pod["volumes"] if one["name"] == "certificate"]
        assert volume["secret"]["optional"] is True
        assert pod["containers"][0]["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
    assert not [name for name in completed(DEFAULT) if name.startswith("tls")]


@pytest.mark.parametrize("mode", MODES)
def test_only_cert_manager_is_asked_for_a_certificate(mode: str) -> None:
    assert [kind for kind, _ in objects(Tls(mode)) if kind == "Certificate"] == (
        ["Certificate"] if mode == "cert-manager" else []
    )


def test_the_certificate_names_every_service_and_what_was_asked_for() -> None:
    made = objects(Tls("cert-manager", secret="ours", names=["console.example.org"]))
    spec = made["Certificate", "penstock"]["spec"]
    assert spec["secretName"] == "ours"
    assert spec["privateKey"]["rotationPolicy"] == "Always"
    services = {name for kind, name in made if kind == "Service"}
    assert {f"{name}.knative-eventing.svc" for name in services} | {"console.example.org"} <= set(spec["dnsNames"])
    settings = Settings(**completed(replace(DEFAULT, tls=Tls("cert-manager"))))
    assert settings.tls_ingress_url.removeprefix("https://") in spec["dnsNames"]


def test_the_address_over_https_is_that_of_a_service() -> None:
    ports = objects(Tls("secret"))["Service", "broker-ingress"]["spec"]["ports"]
    assert {"name": "https", "port": 443, "targetPort": "https"} in ports


@pytest.mark.parametrize(
    ("tls", "how"),
    [
        (Tls(), {}),
        (Tls("secret"), {"ca": {"secret": {"name": "penstock-tls", "key": "ca.crt"}}}),
        (Tls("secret", authority=""), {"ca": {}}),
    ],
    ids=["off", "own authority", "public"],
)
def test_prometheus_believes_what_roles_show(tls: Tls, how: Obj) -> None:
    (endpoint,) = objects(tls)["ServiceMonitor", "penstock"]["spec"]["endpoints"]
    assert endpoint.get("scheme", "http") == tls.scheme
    expected = {} if tls.is_off else {"serverName": "broker-ingress.knative-eventing.svc", **how}
    assert endpoint.get("tlsConfig", {}) == expected


def test_a_certificate_of_a_public_authority_needs_no_trust_in_addresses() -> None:
    settings = Settings(**completed(replace(DEFAULT, tls=Tls("secret", authority=""))))
    assert settings.tls_cert_file == Path(f"{CERTIFICATE_FOLDER}/tls.crt")
    assert settings.tls_ca_file is None


def test_a_renewed_secret_is_shown_without_a_restart(tmp_path: Path) -> None:
    """Kubernetes swaps the folder behind a symbolic link; the settings name files in it, as in a Pod."""
    now = datetime.now(UTC)
    authority = certificates.make_authority("test", timedelta(days=30), now)

    def mounted(number: int) -> KeyPair:
        pair = certificates.issue_certificate(
            authority, "penstock", ["broker-ingress.knative-eventing.svc"], timedelta(days=1), now
        )
        version = tmp_path / f"..{number}"
        version.mkdir()
        for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.certificate)):
            (version / name).write_bytes(content)
        link = tmp_path / "..next"
        link.symlink_to(version)
        link.rename(tmp_path / "..data")
        return pair

    mounted(1)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(tmp_path / "..data" / name)
    told = completed(replace(DEFAULT, tls=Tls("secret")))
    here: dict[str, Any] = {
        name: value.replace(CERTIFICATE_FOLDER, str(tmp_path)) if isinstance(value, str) else value
        for name, value in told.items()
    }
    settings = Settings(**here)
    tls = ServerTls(settings)
    assert tls.look() is True
    assert tls.look() is False
    mounted(2)
    assert tls.look() is True
    assert trusted_by_clients(settings, now) == authority.certificate.decode()
