"""From a CustomResourceDefinition to the kinds it serves: checks of the definition itself, and what its status says."""

from __future__ import annotations

from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.kinds.registry import PrinterColumn, ServedKind
from penstock.apiserver.kinds.schema import Complaint
from penstock.kube.kinds import Obj

GROUP, PLURAL, KIND = "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"
RESOURCE = f"{PLURAL}.{GROUP}"

_TYPES = ("object", "array", "string", "boolean", "integer", "number")
_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


def check(definition: Obj) -> None:
    """Raises if the definition cannot be served."""
    name, spec = definition["metadata"].get("name", ""), definition.get("spec") or {}
    complaints: list[Complaint] = []

    def require(path: str, value: Any) -> None:
        if not value:
            complaints.append((path, "FieldValueRequired", "Required value"))

    names = spec.get("names") or {}
    require("spec.group", spec.get("group"))
    require("spec.names.plural", names.get("plural"))
    require("spec.names.kind", names.get("kind"))
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        shown = spec.get("scope", "")
        sentence = f'Unsupported value: "{shown}": supported values: "Cluster", "Namespaced"'
        complaints.append(("spec.scope", "FieldValueNotSupported", sentence))
    versions = spec.get("versions") or []
    if sum(1 for version in versions if version.get("storage")) != 1:
        sentence = "Invalid value: must have exactly one version marked as storage version"
        complaints.append(("spec.versions", "FieldValueInvalid", sentence))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            complaints.append((path, "FieldValueRequired", "Required value: schemas are required"))
        else:
            complaints += _check_schema(schema, path)
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if name != expected:
        sentence = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        complaints.append(("metadata.name", "FieldValueInvalid", sentence))
    if complaints:
        raise errors.invalid(GROUP, KIND, name, complaints)


def _check_schema(schema: Any, path: str) -> list[Complaint]:
    """The complaints about a schema that the walkers could not handle."""

    def wrong(where: str, sentence: str) -> Complaint:
        return where, "FieldValueInvalid", f"Invalid value: {sentence}"

    if not isinstance(schema, dict):
        return [wrong(path, "must be an object")]
    complaints: list[Complaint] = []
    if schema.get("type") not in (None, *_TYPES):
        complaints.append(wrong(f"{path}.type", f"must be one of {', '.join(_TYPES)}"))
    if "$ref" in schema:
        complaints.append(("$ref", "FieldValueForbidden", "Forbidden: references are not supported"))
    properties = schema.get("properties") or {}
    if not isinstance(properties, dict):
        return [*complaints, wrong(f"{path}.properties", "must be an object of schemas")]
    parts = [(f"{path}.properties[{name}]", part) for name, part in properties.items()]
    parts += [(f"{path}.{word}", schema[word]) for word in ("items", "not") if word in schema]
    if not isinstance(schema.get("additionalProperties", True), bool):
        parts.append((f"{path}.additionalProperties", schema["additionalProperties"]))
    for word in ("allOf", "anyOf", "oneOf", "required", "enum", "x-kubernetes-list-map-keys"):
        if not isinstance(schema.get(word, []), list):
            complaints.append(wrong(f"{path}.{word}", "must be a list"))
        elif word.endswith("Of"):
            parts += [(f"{path}.{word}[{index}]", part) for index, part in enumerate(schema.get(word, []))]
    for where, part in parts:
        complaints += _check_schema(part, where)
    return complaints


def complete(definition: Obj, now: str) -> Obj:
    """Fills what may be left out, and the status that says the names are accepted and served."""
    spec = definition["spec"]
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = definition.setdefault("status", {})
    status["acceptedNames"] = dict(names)
    status["storedVersions"] = [version["name"] for version in spec["versions"] if version["storage"]]
    if not status.get("conditions"):
        status["conditions"] = [
            {
                "type": "NamesAccepted",
                "status": "True",
                "reason": "NoConflicts",
                "message": "no conflicts found",
                "lastTransitionTime": now,
            },
            {
                "type": "Established",
                "status": "True",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
                "lastTransitionTime": now,
            },
        ]
    return definition


def kinds_of(definition: Obj) -> list[ServedKind]:
    """The kinds that an accepted definition serves, the storage version first."""
    spec, names = definition["spec"], definition["spec"]["names"]
    storage = next(version["name"] for version in spec["versions"] if version["storage"])
    served = sorted((v for v in spec["versions"] if v.get("served")), key=lambda v: v["name"] != storage)
    return [
        ServedKind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or names["kind"] + "List",
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=("status",) if (version.get("subresources") or {}).get("status") is not None else (),
            schema=version["schema"]["openAPIV3Schema"],
            columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())) or (_AGE,),
            storage_version=storage,
            custom=True,
            deprecation=_deprecation(spec["group"], names["kind"], version),
            field_selectors=tuple(
                selectable["jsonPath"].lstrip(".") for selectable in version.get("selectableFields") or ()
            ),
        )
        for version in served
    ]


def _deprecation(group: str, kind: str, version: Obj) -> str:
    """The warning for users of the version; empty if it is not deprecated."""
    if not version.get("deprecated"):
        return ""
    return str(version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated")


def _column(column: Obj) -> PrinterColumn:
    return PrinterColumn(
        column["name"],
        column["jsonPath"],
        column.get("type", "string"),
        column.get("priority", 0),
        column.get("description") or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        column.get("format", ""),
    )
