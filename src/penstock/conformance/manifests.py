"""The manifests of the tests, as files and as objects: as they are written, or moved to a namespace of their own.

Tests share one Channel and one Broker, so the document forbids to run two at once. In a namespace with a Channel and a
Broker of its own each test is alone again, and all of them can run together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

NAMESPACE = "conformance"
FOLDER = "control-plane/event-delivery"
PREPARE = "00-prepare.yaml"


@dataclass(frozen=True)
class ManifestPlacement:
    """Where and with which image the manifests are used."""

    namespace: str = NAMESPACE
    image: str | None = None
    """Image in place of the manifests' own, for clusters that cannot pull it."""
    sink: str | None = None
    """URL that emitters send to, in place of the manifests' own."""


def folder() -> Path:
    """The folder that the document calls `control-plane/event-delivery`."""
    return Path(str(files("penstock.conformance"))) / "manifests" / FOLDER


def load(name: str, placement: ManifestPlacement) -> list[Manifest]:
    """The objects of one file, placed."""
    text = (folder() / name).read_text()
    if placement.namespace != NAMESPACE:
        text = _moved(text, placement.namespace)
    return [_placed(document, placement) for document in yaml.safe_load_all(text) if document]


def sent_by(emitter: list[Manifest]) -> str:
    """What an emitter sends and where to, for people."""
    env = {entry["name"]: entry.get("value") for item in emitter for one in _containers(item) for entry in one["env"]}
    return f"{' '.join(str(env.get('INPUT_EVENT')).split())} to {env.get('SINK')}"


def _moved(text: str, namespace: str) -> str:
    """The text for another namespace: metadata, role bindings, and the names inside of the emitters' URLs."""
    text = text.replace(f"namespace: {NAMESPACE}\n", f"namespace: {namespace}\n")
    text = text.replace(f"kn-channel.{NAMESPACE}.svc", f"kn-channel.{namespace}.svc")
    text = text.replace(f"/{NAMESPACE}/conformance-broker", f"/{namespace}/conformance-broker")
    return text.replace(
        f"kind: Namespace\nmetadata:\n  name: {NAMESPACE}\n", f"kind: Namespace\nmetadata:\n  name: {namespace}\n"
    )


def _placed(document: Manifest, placement: ManifestPlacement) -> Manifest:
    for container in _containers(document):
        if placement.image:
            container["image"] = placement.image
        for entry in container.get("env") or ():
            if entry["name"] == "SINK" and placement.sink:
                entry["value"] = placement.sink
    return document


def _containers(document: Manifest) -> Iterator[Manifest]:
    if document["kind"] == "Pod":
        yield from document["spec"]["containers"]
