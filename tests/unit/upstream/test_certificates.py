"""What stands in for cert-manager: the Secrets that come of the suite's Certificates."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
import yaml
from cryptography import x509
from lightkube import ApiError, AsyncClient
from lightkube.resources.core_v1 import ConfigMap, Secret

from penstock.web.certificates import is_signed_by, lasts_for, names_all
from tools.upstream import certificates
from tools.upstream.certificates import (
    BUNDLE_KEY,
    KINDS,
    LASTS,
    CannotIssue,
    Certificate,
    CertificateIssuer,
    ClusterIssuer,
)

SELF_SIGNED = {"kind": "Issuer", "namespace": "ns", "name": "selfsigned-issuer", "spec": {"selfSigned": {}}}
OF_AUTHORITY = {
    "kind": "Issuer",
    "namespace": "ns",
    "name": "ca-issuer",
    "spec": {"ca": {"secretName": "eventshub-ca"}},
}
AUTHORITY = {
    "metadata": {"name": "selfsigned-ca", "namespace": "ns", "uid": "1", "generation": 1},
    "spec": {
        "secretName": "eventshub-ca",
        "isCA": True,
        "commonName": "selfsigned-ca",
        "issuerRef": {"name": "selfsigned-issuer", "kind": "Issuer"},
    },
}
SERVICE = "a-receiver-with-a-name-that-is-longer-than-subjects-may-be.ns.svc.cluster.local"
RECEIVER = {
    "metadata": {"name": "sink", "namespace": "ns", "uid": "2", "generation": 1},
    "spec": {
        "secretName": "server-tls-sink",
        "secretTemplate": {"labels": {"app": "eventshub-sink"}},
        "isCA": False,
        "dnsNames": [SERVICE],
        "ipAddresses": ["127.0.0.1"],
        "issuerRef": {"name": "ca-issuer", "kind": "Issuer"},
    },
}


class MemoryApi:
    """As much of a Kubernetes API as is asked."""

    def __init__(self, asked: list[dict[str, Any]], issuers: list[dict[str, Any]]) -> None:
        self._asked, self._issuers = asked, issuers
        self.secrets: dict[tuple[str, str], Secret] = {}
        self.bundle: dict[str, str] = {}
        self.ready: dict[str, tuple[str, str]] = {}
        self.told = asyncio.Event()

    async def watch(self, kind: Any, *, namespace: str, on_error: Any) -> AsyncIterator[tuple[str, Any]]:
        for one in self._asked:
            yield "ADDED", Certificate.from_dict(one)
            yield "MODIFIED", Certificate.from_dict(one)
        await asyncio.Event().wait()

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if kind is Secret and (namespace, name) in self.secrets:
            return self.secrets[namespace, name]
        for issuer in self._issuers:
            if kind is not Secret and (issuer["namespace"], issuer["name"]) == (namespace, name):
                return issuer
        raise not_found()

    async def apply(self, secret: Secret, *, force: bool) -> None:
        assert secret.metadata is not None
        place = (secret.metadata.namespace or "", secret.metadata.name or "")
        assert place not in self.secrets, "one Certificate gives one Secret, however often it is told"
        self.secrets[place] = secret

    async def patch(self, kind: Any, name: str, change: dict[str, Any], *, namespace: str, patch_type: Any) -> None:
        if kind is ConfigMap:
            self.bundle |= change["data"]
            return
        (condition,) = change["status"]["conditions"]
        self.ready[name] = (condition["status"], condition["message"])
        if len(self.ready) == len(self._asked):
            self.told.set()


def not_found() -> ApiError:
    import httpx2

    answer = httpx2.Response(404, json={"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"})
    return ApiError(request=httpx2.Request("GET", "https://api.test/"), response=answer)


async def issued(*asked: dict[str, Any], issuers: list[dict[str, Any]]) -> MemoryApi:
    api = MemoryApi(list(asked), issuers)
    running = asyncio.create_task(CertificateIssuer(cast(AsyncClient, api)).run())
    async with asyncio.timeout(60):
        await api.told.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return api


def files(secret: Secret) -> dict[str, bytes]:
    return {name: base64.b64decode(content) for name, content in (secret.data or {}).items()}


async def test_a_receiver_has_a_certificate_of_its_authority_for_all_its_names() -> None:
    # The receiver comes first, and waits.
    api = await issued(RECEIVER, AUTHORITY, issuers=[SELF_SIGNED, OF_AUTHORITY])
    assert {status for status, _ in api.ready.values()} == {"True"}
    authority, receiver = files(api.secrets["ns", "eventshub-ca"]), files(api.secrets["ns", "server-tls-sink"])
    assert receiver["ca.crt"] == authority["tls.crt"] == authority["ca.crt"]
    assert is_signed_by(receiver["tls.crt"], authority["tls.crt"])
    assert names_all(receiver["tls.crt"], [SERVICE, "127.0.0.1"])
    assert lasts_for(receiver["tls.crt"], LASTS / 2, datetime.now(UTC))
    assert receiver["tls.key"] != authority["tls.key"]
    secret = api.secrets["ns", "server-tls-sink"]
    assert (secret.type, secret.metadata and secret.metadata.labels) == (
        "kubernetes.io/tls",
        {"app": "eventshub-sink"},
    )
    assert api.bundle == {}


async def test_the_authority_of_the_installation_is_in_the_trust_bundle_and_signs_for_all_namespaces() -> None:
    cluster = {**AUTHORITY, "metadata": {**AUTHORITY["metadata"], "namespace": "cert-manager"}}
    reference = {"name": "knative-eventing-ca-issuer", "kind": "ClusterIssuer"}
    receiver = {**RECEIVER, "spec": {**RECEIVER["spec"], "issuerRef": reference}}
    of_cluster = {**OF_AUTHORITY, "namespace": "", "name": "knative-eventing-ca-issuer"}
    api = await issued(cluster, receiver, issuers=[{**SELF_SIGNED, "namespace": "cert-manager"}, of_cluster])
    assert [x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string() for pem in api.bundle.values()] == [
        "CN=selfsigned-ca"
    ]
    assert is_signed_by(files(api.secrets["ns", "server-tls-sink"])["tls.crt"], api.bundle[BUNDLE_KEY].encode())


async def test_what_cannot_be_issued_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "PATIENCE_SECONDS", 0.3)
    lost = {**RECEIVER, "metadata": {**RECEIVER["metadata"], "name": "lost", "uid": "3"}}
    lost["spec"] = {**RECEIVER["spec"], "issuerRef": {"name": "nobody", "kind": "Issuer"}}
    other = {**OF_AUTHORITY, "spec": {"acme": {}}}
    api = await issued(RECEIVER, lost, issuers=[other])
    assert api.ready["sink"] == ("False", "its issuer is neither selfSigned nor of a ca: ['acme']")
    assert api.ready["lost"] == ("False", "no issuer for it after 0.3 s")
    assert api.secrets == {}


@pytest.mark.parametrize("spec", [{"isCA": True, "dnsNames": ["a.test"]}, {"dnsNames": [], "commonName": "a"}])
def test_an_authority_signs_servers_with_names_alone(spec: dict[str, Any]) -> None:
    signer = certificates.signed_by_itself({"isCA": True})
    with pytest.raises(CannotIssue, match="dnsNames"):
        certificates.signed(spec, signer)
    with pytest.raises(CannotIssue, match="only authorities"):
        certificates.signed_by_itself({"dnsNames": ["a.test"]})


def test_the_kinds_are_those_that_are_watched() -> None:
    listed = [one for one in yaml.safe_load_all(KINDS.read_text()) if one["kind"] == "CustomResourceDefinition"]
    told = {(one["spec"]["group"], one["spec"]["names"]["kind"], one["spec"]["names"]["plural"]) for one in listed}
    infos = [kind._api_info for kind in (Certificate, certificates.Issuer, ClusterIssuer)]
    assert told == {(info.resource.group, info.resource.kind, info.plural) for info in infos}
