"""One rule of a role: what it allows, and which other rules it covers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from penstock.apiserver.documents import Obj

ANYTHING = "*"


class AccessRequest(NamedTuple):
    """What somebody wants to do; `path` is set for addresses that are no resources."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`pods`, or `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def allows(rule: Obj, request: AccessRequest) -> bool:
    """Whether a rule allows a request; where it holds is not its business."""
    if not _lists(rule, "verbs", request.verb):
        return False
    if request.path:
        return any(_path_matches(pattern, request.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _lists(rule, "apiGroups", request.group)
        and _names_resource(rule, request.full_resource)
        and (not names or request.name in names)
    )


def uncovered(held: Iterable[Obj], wanted: Iterable[Obj]) -> list[Obj]:
    """What of the wanted rules the held ones do not allow, in the smallest parts."""
    held = list(held)
    parts = [part for rule in wanted for part in _parts(rule)]
    return [part for part in parts if not any(_covers(rule, part) for rule in held)]


def compacted(parts: Iterable[Obj]) -> list[Obj]:
    """Parts that differ only by their verb, put together again."""
    together: dict[tuple[str, ...], Obj] = {}
    for part in parts:
        key = tuple(f"{field}={value}" for field, value in part.items() if field != "verbs")
        if key in together:
            together[key]["verbs"] = [*together[key]["verbs"], *part["verbs"]]
        else:
            together[key] = dict(part)
    return list(together.values())


def described(rule: Obj) -> str:
    """A rule on one line, as Kubernetes writes it in its refusals."""
    fields = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "nonResourceURLs": "NonResourceURLs",
        "resourceNames": "ResourceNames",
        "verbs": "Verbs",
    }
    told = [f"{title}:{quoted(rule[field])}" for field, title in fields.items() if rule.get(field)]
    return "{" + ", ".join(told) + "}"


def quoted(values: Iterable[str]) -> str:
    """`["a" "b"]`."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _parts(rule: Obj) -> list[Obj]:
    verbs = rule.get("verbs") or ()
    parts = [
        {"nonResourceURLs": [url], "verbs": [verb]} for url, verb in product(rule.get("nonResourceURLs") or (), verbs)
    ]
    names = [[name] for name in rule.get("resourceNames") or ()] or [[]]
    for group, resource, name, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), names, verbs):
        part: Obj = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        parts.append(part | ({"resourceNames": name} if name else {}))
    return parts


def _covers(rule: Obj, part: Obj) -> bool:
    """Whether a rule allows all that the part, which names one thing of each sort, allows."""
    if not _lists(rule, "verbs", part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        return any(_path_matches(pattern, part["nonResourceURLs"][0]) for pattern in rule.get("nonResourceURLs") or ())
    names, wanted = rule.get("resourceNames") or [], part.get("resourceNames") or []
    return (
        _lists(rule, "apiGroups", part["apiGroups"][0])
        and _names_resource(rule, part["resources"][0])
        and (not names or (bool(wanted) and wanted[0] in names))
    )


def _lists(rule: Obj, field: str, wanted: str) -> bool:
    values = rule.get(field) or ()
    return ANYTHING in values or wanted in values


def _names_resource(rule: Obj, resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _lists(rule, "resources", resource) or (bool(slash) and f"*/{subresource}" in rule["resources"])


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))
