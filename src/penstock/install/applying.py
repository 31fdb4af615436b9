"""Puts an installation into a cluster: server-side apply of each object, in order.

So a second run is an upgrade, what others have set stays theirs, and what two want differently is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.core.exceptions import ConfigError
from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource, create_api_info

from penstock.controllers.api import CONFLICT, FORBIDDEN, NOT_FOUND, Kind
from penstock.engine.problem import Problem
from penstock.install.objects import Manifest, Obj

FIELD_MANAGER = "penstock-install"


class Applier:
    """A connection to the API of the cluster."""

    def __init__(self, kubeconfig: Path | None) -> None:
        """Of this kubeconfig, or of the one that kubectl would use."""
        try:
            config = KubeConfig.from_env() if kubeconfig is None else KubeConfig.from_file(kubeconfig)
            self._client = Client(config, field_manager=FIELD_MANAGER, trust_env=False)
        except ConfigError as error:
            raise Problem(f"No cluster to install into: {error}.", "Name one with --kubeconfig.") from None

    def apply(self, manifests: list[Manifest], *, force: bool, dry_run: bool) -> Iterator[tuple[Obj, str]]:
        """Each object with what was done to it: `applied`, or `kept` where it is the user's. Raises Problem."""
        for manifest in manifests:
            yield manifest.obj, self._told(manifest, force, dry_run)

    def _apply(self, manifest: Manifest, force: bool, dry_run: bool) -> str:
        resource = _resource_of(manifest.obj)
        if not manifest.once:
            self._client.apply(resource(manifest.obj), force=force, dry_run=dry_run)
            return "applied"
        metadata = manifest.obj["metadata"]
        try:
            # Looked for first: a write would wait for the webhook, which may not be there yet.
            self._client.get(resource, metadata["name"], namespace=metadata["namespace"])
        except ApiError as error:
            if error.status.code != NOT_FOUND:
                raise
            self._client.create(resource(manifest.obj), dry_run=dry_run)
            return "applied"
        return "kept"

    def _told(self, manifest: Manifest, force: bool, dry_run: bool) -> str:
        name = f"{manifest.obj['kind']} {manifest.obj['metadata']['name']}"
        try:
            return self._apply(manifest, force, dry_run)
        except ApiError as error:
            remedies = {
                NOT_FOUND: "A dry run stores nothing: create the namespace first, `kubectl create namespace`."
                if dry_run
                else "",
                CONFLICT: "Somebody else has set these fields; --force takes them over.",
                FORBIDDEN: "Install with the rights of a cluster administrator.",
            }
            raise Problem(
                f"{name} was refused: {error.status.message}", remedies.get(error.status.code or 0, "")
            ) from None
        except httpx2.HTTPError as error:
            raise Problem(
                f"The cluster's API did not answer ({error or type(error).__name__}).", "Look at the kubeconfig."
            ) from None


def _resource_of(obj: Obj) -> Any:
    """lightkube's class for the object's kind, kept out of its global registry."""
    kind = Kind(obj["apiVersion"], obj["kind"])
    info = create_api_info(kind.group, kind.api_version.rpartition("/")[2], kind.kind, kind.plural)
    base = GenericNamespacedResource if "namespace" in obj["metadata"] else GenericGlobalResource
    return type(kind.kind, (base,), {"_api_info": info})
