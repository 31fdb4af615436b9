"""What cert-manager and trust-manager would do for the suite: certificates for its receivers, and whom to believe.

Receivers over TLS ask for a Certificate and mount the Secret that comes of it. Of cert-manager there is what the suite
asks for: issuers that sign with their own key or with that of a Secret, names and addresses, and the condition Ready.
Nothing is renewed: a run is over before.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Secret
from lightkube.types import OnErrorAction, OnErrorResult, PatchType

from penstock.runtime.times import rfc3339
from penstock.web.certificates import KeyPair, issue_certificate, make_authority
from tools.upstream import binaries

KINDS = binaries.MODULE / "certificate-kinds.yaml"
CONFIG = ("selfsigned-issuer.yaml", "eventing-ca-issuer.yaml", "bundle-configmap.yaml")
"""Of upstream's folder test/config/tls: the authority of the installation, and the trust bundle that it is put into."""
SYSTEM, CLUSTER_NAMESPACE = "knative-eventing", "cert-manager"
BUNDLE, BUNDLE_KEY = "knative-eventing-bundle", "knative-eventing-bundle.pem"
GROUP, VERSION = "cert-manager.io", "v1"
LASTS = timedelta(days=1)
PATIENCE_SECONDS = 60
"""For the issuer of a Certificate, and its Secret."""
LOOK_SECONDS = 0.2
LONGEST_NAME = 64
"""Of a certificate's subject."""
NOT_FOUND = 404
GONE = (403, NOT_FOUND, 409)
"""What the API answers about a namespace that is deleted meanwhile, as those of tests are."""

Certificate = create_namespaced_resource(GROUP, VERSION, "Certificate", "certificates")
Issuer = create_namespaced_resource(GROUP, VERSION, "Issuer", "issuers")
ClusterIssuer = create_global_resource(GROUP, VERSION, "ClusterIssuer", "clusterissuers")

Manifest = Mapping[str, Any]


class CannotIssue(Exception):
    """The Certificate cannot be had; the text says why."""


@contextlib.asynccontextmanager
async def issuing(kubeconfig: Path) -> AsyncIterator[None]:
    """Certificates are issued meanwhile; what ends that ends the run."""
    await asyncio.to_thread(_install, kubeconfig)
    api = AsyncClient(KubeConfig.from_file(kubeconfig), field_manager=CLUSTER_NAMESPACE, trust_env=False)
    try:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(CertificateIssuer(api).run())
            yield
            working.cancel()
    finally:
        await api.close()


def _install(kubeconfig: Path) -> None:
    config = [binaries.sources() / "test" / "config" / "tls" / name for name in CONFIG]
    for files in ([KINDS], config):
        named = [word for file in files for word in ("-f", str(file))]
        apply = ["kubectl", "--kubeconfig", str(kubeconfig), "apply", "--server-side", "--force-conflicts", *named]
        subprocess.run(apply, check=True, stdout=subprocess.DEVNULL)


class CertificateIssuer:
    """Issues what Certificates ask for."""

    def __init__(self, api: AsyncClient) -> None:
        self._api = api
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            async for verb, certificate in self._api.watch(Certificate, namespace="*", on_error=_again):
                asked = dict(certificate)
                if verb != "DELETED" and asked["metadata"]["uid"] not in self._seen:
                    self._seen.add(asked["metadata"]["uid"])
                    group.create_task(self._issue(asked))

    async def _issue(self, asked: Manifest) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                made, signer = await self._made(asked)
            await self._api.apply(secret_of(asked, made, signer), force=True)
            if asked["spec"].get("isCA") and asked["metadata"]["namespace"] == CLUSTER_NAMESPACE:
                await self._publish(made)
            await self._tell(asked, ready("True", "Ready", "Certificate is up to date and has not expired"))
        except TimeoutError:
            await self._tell(asked, ready("False", "Pending", f"no issuer for it after {PATIENCE_SECONDS} s"))
        except CannotIssue as error:
            await self._tell(asked, ready("False", "Failed", str(error)))
        except ApiError as error:
            if error.status.code not in GONE:
                raise

    async def _made(self, asked: Manifest) -> tuple[KeyPair, KeyPair]:
        """The certificate, and that of who signed it, once there is one who can. Raises CannotIssue."""
        while True:
            issuer = await self._issuer(asked)
            if issuer is not None and "selfSigned" in issuer:
                made = signed_by_itself(asked["spec"])
                return made, made
            if issuer is not None and "ca" not in issuer:
                raise CannotIssue(f"its issuer is neither selfSigned nor of a ca: {sorted(issuer)}")
            signer = await self._signer(asked, issuer["ca"]["secretName"]) if issuer is not None else None
            if signer is not None:
                return signed(asked["spec"], signer), signer
            await asyncio.sleep(LOOK_SECONDS)

    async def _issuer(self, asked: Manifest) -> dict[str, Any] | None:
        """The spec of the issuer; None where there is none yet."""
        reference, namespace = asked["spec"]["issuerRef"], asked["metadata"]["namespace"]
        try:
            if reference.get("kind") == "ClusterIssuer":
                found: Any = await self._api.get(ClusterIssuer, reference["name"])
            else:
                found = await self._api.get(Issuer, reference["name"], namespace=namespace)
        except ApiError as error:
            if error.status.code != NOT_FOUND:
                raise
            return None
        return dict(found["spec"])

    async def _signer(self, asked: Manifest, secret: str) -> KeyPair | None:
        """The authority in the issuer's Secret; None where there is none yet."""
        of_cluster = asked["spec"]["issuerRef"].get("kind") == "ClusterIssuer"
        namespace = CLUSTER_NAMESPACE if of_cluster else asked["metadata"]["namespace"]
        try:
            data = (await self._api.get(Secret, secret, namespace=namespace)).data or {}
        except ApiError as error:
            if error.status.code != NOT_FOUND:
                raise
            return None
        return KeyPair(base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))

    async def _publish(self, authority: KeyPair) -> None:
        """Puts the authority into the trust bundle."""
        data = {BUNDLE_KEY: authority.certificate.decode()}
        await self._api.patch(ConfigMap, BUNDLE, {"data": data}, namespace=SYSTEM, patch_type=PatchType.MERGE)

    async def _tell(self, asked: Manifest, condition: Manifest) -> None:
        metadata = asked["metadata"]
        status = {"status": {"conditions": [{**condition, "observedGeneration": metadata.get("generation", 1)}]}}
        try:
            await self._api.patch(
                Certificate.Status,
                metadata["name"],
                status,
                namespace=metadata["namespace"],
                patch_type=PatchType.MERGE,
            )
        except ApiError as error:
            if error.status.code not in GONE:
                raise


def _again(_: Exception, __: int) -> OnErrorResult:
    """A watch that breaks is begun anew."""
    return OnErrorResult(OnErrorAction.RETRY, LOOK_SECONDS)


def signed_by_itself(spec: Manifest) -> KeyPair:
    """An authority. Raises CannotIssue for anything else: the suite asks for nothing else."""
    if not spec.get("isCA"):
        raise CannotIssue("only authorities sign themselves here")
    return make_authority(str(spec.get("commonName") or "authority"), LASTS, datetime.now(UTC))


def signed(spec: Manifest, signer: KeyPair) -> KeyPair:
    """A server's certificate with the names and addresses that are asked for. Raises CannotIssue."""
    hosts = [*(spec.get("dnsNames") or ()), *(spec.get("ipAddresses") or ())]
    if spec.get("isCA") or not hosts:
        raise CannotIssue("an authority signs servers here, which need dnsNames or ipAddresses")
    try:
        return issue_certificate(
            signer, str(spec.get("commonName") or hosts[0])[:LONGEST_NAME], hosts, LASTS, datetime.now(UTC)
        )
    except ValueError as error:
        raise CannotIssue(str(error)) from error


def secret_of(asked: Manifest, made: KeyPair, signer: KeyPair) -> Secret:
    """The Secret of a Certificate, as cert-manager writes it."""
    spec = asked["spec"]
    template = spec.get("secretTemplate") or {}
    files = {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": signer.certificate}
    return Secret(
        apiVersion="v1",
        kind="Secret",
        metadata=ObjectMeta(
            name=spec["secretName"],
            namespace=asked["metadata"]["namespace"],
            labels=template.get("labels"),
            annotations=template.get("annotations"),
        ),
        type="kubernetes.io/tls",
        data={name: base64.b64encode(content).decode() for name, content in files.items()},
    )


def ready(status: str, reason: str, message: str) -> dict[str, Any]:
    """The condition Ready."""
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": rfc3339()}
