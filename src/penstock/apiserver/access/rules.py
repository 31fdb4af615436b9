"""RBAC rules: whether a rule allows a request, and which rules are not covered by others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import accumulate, product
from operator import and_, or_
from typing import NamedTuple

from penstock.kube.kinds import Obj

ANYTHING = "*"
MAX_PAIRS = 50_000_000
"""Pairs of a value and a held rule, one bit each, when rules are compared."""
MAX_STEPS = 100_000
"""Steps of a comparison of rules. Rules written by hand take some hundreds."""


class AccessRequest(NamedTuple):
    """What a user wants to do; `path` is set for requests that are not about a resource."""

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
    """Whether a rule allows a request, not regarding the namespace."""
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


class TooManyParts(Exception):
    """Rules that would take too long to compare; the text names the limit."""


def uncovered(held: Iterable[Obj], wanted: Iterable[Obj]) -> list[Obj]:
    """What of the wanted rules the held ones do not allow, as rules that do not overlap. Raises TooManyParts.

    A rule stands for the product of its groups, resources, names and verbs: a few hundred bytes can mean billions of
    combinations. They are not expanded. Values that the same held rules list are alike, and are compared together.
    """
    wanted = list(wanted)
    known = _HeldRules(list(held), wanted)
    gaps: list[Obj] = []
    for rule in wanted:
        verbs = [(verb, known.verb(verb)) for verb in rule.get("verbs") or ()]
        paths = [(path, known.path(path)) for path in rule.get("nonResourceURLs") or ()]
        gaps += known.gaps({"nonResourceURLs": paths, "verbs": verbs})
        parts = {
            "apiGroups": [(group, known.group(group)) for group in rule.get("apiGroups") or ()],
            "resources": [(resource, known.resource(resource)) for resource in rule.get("resources") or ()],
            "verbs": verbs,
        }
        if names := rule.get("resourceNames"):
            parts = {"resourceNames": [(name, known.name(name)) for name in names], **parts}
            gaps += known.gaps(parts)
        else:
            gaps += known.gaps(parts, known.unnamed)
    return gaps


class _HeldRules:
    """Which of the held rules list a value: a number with one bit for each rule."""

    def __init__(self, rules: list[Obj], wanted: list[Obj]) -> None:
        wanted_values = {
            field: {ANYTHING, *(value for rule in wanted for value in rule.get(field) or ())}
            for field in ("verbs", "apiGroups", "resources", "resourceNames")
        }
        wanted_values["resources"] |= {_of_any(resource) for resource in wanted_values["resources"]}
        if sum(map(len, wanted_values.values())) * len(rules) > MAX_PAIRS:
            raise TooManyParts(f"more than {MAX_PAIRS} pairs of a value and a rule to compare")
        self._listing = {field: _listing(rules, field, values) for field, values in wanted_values.items()}
        self._patterns = [
            (pattern, 1 << index) for index, rule in enumerate(rules) for pattern in rule.get("nonResourceURLs") or ()
        ]
        self._all = (1 << len(rules)) - 1
        self.unnamed = sum(1 << index for index, rule in enumerate(rules) if not rule.get("resourceNames"))
        self._steps = 0

    def verb(self, verb: str) -> int:
        return self._rules("verbs", ANYTHING, verb)

    def group(self, group: str) -> int:
        return self._rules("apiGroups", ANYTHING, group)

    def resource(self, resource: str) -> int:
        return self._rules("resources", ANYTHING, resource, _of_any(resource))

    def name(self, name: str) -> int:
        return self.unnamed | self._rules("resourceNames", name)

    def path(self, path: str) -> int:
        self._count(len(self._patterns))
        return reduce(or_, (rule for pattern, rule in self._patterns if _path_matches(pattern, path)), 0)

    def _rules(self, field: str, *values: str) -> int:
        return reduce(or_, (self._listing[field].get(value, 0) for value in values))

    def gaps(self, parts: Mapping[str, list[tuple[str, int]]], rules: int | None = None) -> Iterator[Obj]:
        """The combinations of one value from each part that none of the rules lists as a whole."""
        if not all(parts.values()):
            return
        *outer, (_, last) = parts.items()
        alike: list[dict[int, list[str]]] = []
        for _, values in outer:
            alike.append({})
            for value, listing in values:
                alike[-1].setdefault(listing, []).append(value)
        # The rules that list every value of the parts from an index on: one of them is enough.
        listed_by = [reduce(and_, (listing for _, listing in values)) for values in parts.values()]
        complete = list(accumulate(reversed(listed_by), and_))[::-1]

        def walk(index: int, rules: int, chosen: list[list[str]]) -> Iterator[list[list[str]]]:
            self._count(1)
            if not rules:
                yield [*chosen, *([value for value, _ in values] for values in list(parts.values())[index:])]
            elif rules & complete[index]:
                return
            elif index == len(outer):
                self._count(len(last))
                if left := [value for value, listing in last if not rules & listing]:
                    yield [*chosen, left]
            else:
                for listing, values in alike[index].items():
                    yield from walk(index + 1, rules & listing, [*chosen, values])

        for gap in walk(0, self._all if rules is None else rules, []):
            yield dict(zip(parts, gap, strict=True))

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooManyParts(f"more than {MAX_STEPS} combinations to compare")


def _listing(rules: list[Obj], field: str, wanted_values: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, rule in enumerate(rules):
        for value in wanted_values.intersection(rule.get(field) or ()):
            found[value] = found.get(value, 0) | 1 << index
    return found


def _of_any(resource: str) -> str:
    """How a rule names the subresource of every resource; a resource itself stays as it is."""
    _, slash, subresource = resource.partition("/")
    return f"*/{subresource}" if slash else resource


def compacted(gaps: Iterable[Obj], most: int) -> list[Obj]:
    """At most `most` rules, as Kubernetes reports them: one per group, resource and name, or path, with its verbs."""
    together: dict[tuple[tuple[str, str], ...], Obj] = {}
    for gap in gaps:
        fields = [field for field in gap if field != "verbs"]
        for values in product(*(gap[field] for field in fields)):
            part = together.get(key := tuple(zip(fields, values, strict=True)))
            if part is None:
                if len(together) == most:
                    return list(together.values())
                part = together[key] = {**{field: [value] for field, value in key}, "verbs": []}
            part["verbs"] += gap["verbs"]
    return list(together.values())


def described(rule: Obj) -> str:
    """A rule on one line, as Kubernetes words it in errors."""
    fields = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "nonResourceURLs": "NonResourceURLs",
        "resourceNames": "ResourceNames",
        "verbs": "Verbs",
    }
    parts = [f"{title}:{quoted(rule[field])}" for field, title in fields.items() if rule.get(field)]
    return "{" + ", ".join(parts) + "}"


def quoted(values: Iterable[str]) -> str:
    """`["a" "b"]`."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _lists(rule: Obj, field: str, wanted: str) -> bool:
    values = rule.get(field) or ()
    return ANYTHING in values or wanted in values


def _names_resource(rule: Obj, resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _lists(rule, "resources", resource) or (bool(slash) and f"*/{subresource}" in rule["resources"])


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))
