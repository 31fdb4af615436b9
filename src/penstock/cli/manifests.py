"""Objects from files of YAML or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from penstock.engine.problem import Problem


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, of every file of a folder, or of standard input (`-`). Raises Problem."""
    files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
    objects = []
    for file in files:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text()
            documents = list(yaml.safe_load_all(text))
        except OSError as error:
            raise Problem(f"{file} cannot be read: {error.strerror}.", exit_code=2) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise Problem(f"{file} is not YAML: {' '.join(str(error).split())}.", exit_code=2) from None
        for document in documents:
            objects += _objects(document, file)
    return objects


def _objects(document: Any, file: Path) -> list[dict[str, Any]]:
    if document is None:
        return []
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise Problem(f"{file} contains a document without apiVersion and kind.", exit_code=2)
    if document["kind"] == "List":
        return [one for item in document.get("items") or [] for one in _objects(item, file)]
    if not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
        raise Problem(f"{file}: the {document['kind']} has no metadata.name.", exit_code=2)
    return [document]
