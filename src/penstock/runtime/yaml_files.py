"""YAML files of the package, read with libyaml, which is ten times as fast as PyYAML's own parser."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import Any

import yaml

SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(file: Traversable) -> list[Any]:
    """All documents of a file, parsed at each call, so that the caller may change them."""
    return list(yaml.load_all(file.read_text("utf-8"), SAFE_LOADER))
