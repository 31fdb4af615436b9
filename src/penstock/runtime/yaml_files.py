"""YAML files of the package, read with libyaml, which is ten times as fast as PyYAML's own parser."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import Any

import yaml

SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(file: Traversable) -> list[Any]:
    """Every document of a file. Read anew each time: the caller's to change."""
    return list(yaml.load_all(file.read_text("utf-8"), SAFE_LOADER))
