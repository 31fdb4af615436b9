"""The kinds that are served: core kinds, and those of CustomResourceDefinitions.

Its indexes are replaced as a whole when a definition is added or removed, so other threads always see one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from penstock.kube.kinds import Obj

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

Convert = Callable[[Obj, str], Obj]
"""An object, its apiVersion included, in the apiVersion that is named."""


@dataclass(frozen=True)
class PrinterColumn:
    """A column of a kind's table: its name, and the JSONPath of its cells."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""


@dataclass(frozen=True, eq=False)
class ServedKind:
    """One kind in one version, with everything the generic verbs need to know about it. Compared by identity."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ("status",)
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    definitions: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Schemas that `schema` refers to by `$ref`."""
    columns: tuple[PrinterColumn, ...] = ()
    storage_version: str = ""
    custom: bool = False
    """Whether the kind is from a CustomResourceDefinition: then strategic merge patches are refused."""
    read_only: bool = False
    """Whether no objects of the kind can be created. It is served so that clients that list it get an empty list."""
    counts_generations: bool = True
    name_rule: str = "subdomain"
    """What a name must look like: `subdomain`, `label` or `path`."""
    field_selectors: tuple[str, ...] = ()
    """Paths that field selectors may name besides metadata.name and metadata.namespace."""
    deprecation: str = ""
    """The warning for users of this version."""
    convert: Convert | None = field(default=None, repr=False)
    """The object in another `apiVersion`; None: versions differ in nothing but that name."""

    @property
    def api_version(self) -> str:
        """`eventing.knative.dev/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name under which all versions of the kind are stored: `brokers.eventing.knative.dev`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_api_version(self) -> str:
        """`apiVersion` of the stored form."""
        version = self.storage_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def stored_as_served(self) -> bool:
        """Whether a stored object is one of this version as it is."""
        return self.api_version == self.stored_api_version

    def served(self, obj: Obj) -> Obj:
        """A stored object in this version."""
        return self._in(obj, self.api_version)

    def stored(self, obj: Obj) -> Obj:
        """An object of this version as it is stored."""
        return self._in(obj, self.stored_api_version)

    def _in(self, obj: Obj, api_version: str) -> Obj:
        if self.convert is None or self.stored_as_served:
            return {**obj, "apiVersion": api_version}
        return self.convert(obj, api_version)

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own subresource."""
        return "status" in self.subresources


class Registry:
    """The served kinds."""

    def __init__(
        self, core: Iterable[ServedKind], conversions: Mapping[tuple[str, str], Convert] = MappingProxyType({})
    ) -> None:
        self._core, self._conversions = tuple(core), conversions
        self._custom: dict[str, tuple[ServedKind, ...]] = {}
        self._index()

    def define(self, definition: str, kinds: Iterable[ServedKind]) -> None:
        """Sets the kinds of a CustomResourceDefinition, by its name."""
        converting = (replace(kind, convert=self._conversions.get((kind.group, kind.kind))) for kind in kinds)
        self._custom = {**self._custom, definition: tuple(converting)}
        self._index()

    def undefine(self, definition: str) -> None:
        """Removes a definition and its kinds."""
        self._custom = {name: kinds for name, kinds in self._custom.items() if name != definition}
        self._index()

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        """The kind served under these names."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> ServedKind | None:
        """Some version of the kind of this name."""
        return self._by_kind.get((group, kind))

    def all(self) -> tuple[ServedKind, ...]:
        """Every kind in every version, core kinds first."""
        return self._all

    def _index(self) -> None:
        everything = self._core + tuple(kind for name in sorted(self._custom) for kind in self._custom[name])
        # Core kinds last, so that a definition cannot replace them.
        by_path = {(kind.group, kind.version, kind.plural): kind for kind in reversed(everything)}
        by_kind: dict[tuple[str, str], ServedKind] = {}
        for kind in everything:
            by_kind.setdefault((kind.group, kind.kind), kind)
        self._all, self._by_path, self._by_kind = everything, by_path, by_kind
