"""The whole installation in the order it is applied in, as objects and as text."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import yaml

from penstock.install.access import access
from penstock.install.definitions import configmaps, definitions, namespace
from penstock.install.objects import Manifest
from penstock.install.registration import registrations
from penstock.install.values import Values
from penstock.install.workloads import workloads
from penstock.kube.kinds import Obj

FILES = {
    "01-namespace.yaml": "The namespace.",
    "02-kinds.yaml": "The kinds: CustomResourceDefinitions.",
    "03-access.yaml": "Who may do what: ServiceAccounts, roles and bindings.",
    "04-configuration.yaml": "Defaults and features. Yours to change: create them once, and keep what you changed.",
    "05-roles.yaml": "What runs: settings, Deployments, Services, and what goes with them.",
    "06-webhook.yaml": "How the API server finds the webhook.",
}


def by_file(values: Values) -> dict[str, list[Manifest]]:
    """The objects of each file, also those that a choice leaves out."""
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
    """Writes every list where it is used: anchors are for machines."""

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
