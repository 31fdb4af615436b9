"""The whole installation in the order of application, as objects and as YAML, and `Installer`, which applies it.

Each object is applied server-side. So a second run is an upgrade, fields that others own stay theirs, and conflicts are
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

import yaml

from penstock.install.access import access
from penstock.install.objects import Manifest, configmaps, definitions, namespace
from penstock.install.registration import registrations
from penstock.install.values import Values
from penstock.install.workloads import workloads
from penstock.kube.client import Client
from penstock.kube.config import ConfigError, read_config, usual_config
from penstock.kube.errors import Conflict, Forbidden, KubeError, NotFound, Unavailable
from penstock.kube.kinds import Kind, Obj, key_of
from penstock.runtime.errors import UserError

FILES = {
    "01-namespace.yaml": "The namespace.",
    "02-kinds.yaml": "The kinds: CustomResourceDefinitions.",
    "03-access.yaml": "Who may do what: ServiceAccounts, roles and bindings.",
    "04-configuration.yaml": "Defaults and features. Yours to change: create them once, and keep what you changed.",
    "05-roles.yaml": "What runs: settings, Deployments, Services, and what goes with them.",
    "06-webhook.yaml": "How the API server finds the webhook.",
}


def by_file(values: Values) -> dict[str, list[Manifest]]:
    """The objects of each file, including those that the values leave out."""
    parts = (namespace(), definitions(), access(), configmaps(), workloads(values), registrations())
    return dict(zip(FILES, parts, strict=True))


def chosen(values: Values) -> list[Manifest]:
    """Every object that is part of the installation."""
    return [one for part in by_file(values).values() for one in part if _is_chosen(one, values)]


def _is_chosen(manifest: Manifest, values: Values) -> bool:
    return all(attrgetter(choice)(values) for choice in manifest.choices)


def text(objects: Iterable[Obj]) -> str:
    """The objects as YAML documents."""
    return "---\n".join(
        yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True) for one in objects
    )


class _Dumper(yaml.SafeDumper):
    """Writes shared lists in full, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """All of them."""
        return True


def files(values: Values) -> dict[str, str]:
    """The plain manifests under `deploy/`, by the names of their files."""
    return {
        name: f"# {FILES[name]}\n# Made by `make manifests`; change src/penstock/install instead.\n"
        + text(one.obj for one in part if _is_chosen(one, values))
        for name, part in by_file(values).items()
    }


FIELD_MANAGER = "penstock-install"


class Applier:
    """A connection to the API of the cluster."""

    def __init__(self, kubeconfig: Path | None) -> None:
        """Uses this kubeconfig, or the one that kubectl would use."""
        try:
            config = usual_config() if kubeconfig is None else read_config(kubeconfig)
            self._client = Client(config, field_manager=FIELD_MANAGER)
        except ConfigError as error:
            raise UserError(f"No cluster to install into: {error}.", "Name one with --kubeconfig.") from None

    def apply(self, manifests: list[Manifest], *, force: bool, dry_run: bool) -> Iterator[tuple[Obj, str]]:
        """Each object with what was done: `applied`, or `kept` where it belongs to the user. Raises Problem."""
        for manifest in manifests:
            yield manifest.obj, self._told(manifest, force, dry_run)

    def _apply(self, manifest: Manifest, force: bool, dry_run: bool) -> str:
        kind = Kind(manifest.obj["apiVersion"], manifest.obj["kind"])
        if not manifest.once:
            self._client.apply(kind, manifest.obj, force=force, dry_run=dry_run)
            return "applied"
        # Read before writing: a write would call the webhook, which may not run yet.
        if self._client.read(kind, key_of(manifest.obj)) is not None:
            return "kept"
        self._client.create(kind, manifest.obj, dry_run=dry_run)
        return "applied"

    def _told(self, manifest: Manifest, force: bool, dry_run: bool) -> str:
        name = f"{manifest.obj['kind']} {manifest.obj['metadata']['name']}"
        try:
            return self._apply(manifest, force, dry_run)
        except Unavailable as error:
            raise UserError(f"The cluster's API is not reachable ({error}).", "Check the kubeconfig.") from None
        except KubeError as error:
            raise UserError(f"{name} was refused: {error}", _remedy(error, dry_run)) from None


def _remedy(error: KubeError, dry_run: bool) -> str:
    match error:
        case NotFound() if dry_run:
            return "A dry run stores nothing: create the namespace first, `kubectl create namespace`."
        case Conflict():
            return "Another client has set these fields; --force takes them over."
        case Forbidden():
            return "Install with the rights of a cluster administrator."
        case _:
            return ""
