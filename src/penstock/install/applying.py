"""Puts an installation into a cluster: server-side apply of each object, in order.

So a second run is an upgrade, fields that others own stay theirs, and conflicts are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.engine.problem import Problem
from penstock.install.objects import Manifest
from penstock.kube.client import Client
from penstock.kube.config import ConfigError, read_config, usual_config
from penstock.kube.errors import Conflict, Forbidden, KubeError, NotFound, Unavailable
from penstock.kube.kinds import Kind, Obj, key_of

FIELD_MANAGER = "penstock-install"


class Applier:
    """A connection to the API of the cluster."""

    def __init__(self, kubeconfig: Path | None) -> None:
        """Of this kubeconfig, or of the one that kubectl would use."""
        try:
            config = usual_config() if kubeconfig is None else read_config(kubeconfig)
            self._client = Client(config, field_manager=FIELD_MANAGER)
        except ConfigError as error:
            raise Problem(f"No cluster to install into: {error}.", "Name one with --kubeconfig.") from None

    def apply(self, manifests: list[Manifest], *, force: bool, dry_run: bool) -> Iterator[tuple[Obj, str]]:
        """Each object with what was done to it: `applied`, or `kept` where it is the user's. Raises Problem."""
        for manifest in manifests:
            yield manifest.obj, self._told(manifest, force, dry_run)

    def _apply(self, manifest: Manifest, force: bool, dry_run: bool) -> str:
        kind = Kind(manifest.obj["apiVersion"], manifest.obj["kind"])
        if not manifest.once:
            self._client.apply(kind, manifest.obj, force=force, dry_run=dry_run)
            return "applied"
        # Looked for first: a write would wait for the webhook, which may not be there yet.
        if self._client.read(kind, key_of(manifest.obj)) is not None:
            return "kept"
        self._client.create(kind, manifest.obj, dry_run=dry_run)
        return "applied"

    def _told(self, manifest: Manifest, force: bool, dry_run: bool) -> str:
        name = f"{manifest.obj['kind']} {manifest.obj['metadata']['name']}"
        try:
            return self._apply(manifest, force, dry_run)
        except Unavailable as error:
            raise Problem(f"The cluster's API did not answer ({error}).", "Look at the kubeconfig.") from None
        except KubeError as error:
            raise Problem(f"{name} was refused: {error}", _remedy(error, dry_run)) from None


def _remedy(error: KubeError, dry_run: bool) -> str:
    match error:
        case NotFound() if dry_run:
            return "A dry run stores nothing: create the namespace first, `kubectl create namespace`."
        case Conflict():
            return "Somebody else has set these fields; --force takes them over."
        case Forbidden():
            return "Install with the rights of a cluster administrator."
        case _:
            return ""
