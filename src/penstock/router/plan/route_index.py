"""Filing: under which attribute value each route is found, so that an event meets only its likely routes.

A filter in conjunctive form is a list of clauses that must all hold; a clause holds if one of its atoms does. A clause
whose atoms all ask one attribute for exact values files its route under those values. Among several such clauses the
one whose values the fewest routes share is taken. The other clauses travel with the route as data; a filter that has
no such form of a sane size becomes an expression of the query, which the route names by number. One that cannot be
routed by, or that would take Spark minutes to plan, is refused.

What a filter asks of data is one more attribute here (see `penstock.filters.data`): a route is filed under it alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.contract.routes import Route
from penstock.events.kafka_binding import CONTENT_TYPE, PREFIX
from penstock.filters.data.facts import NUMBER, facts_asked, is_fact
from penstock.filters.normal import Atom, Clause, conjunctive, exact_atom
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import COMPARE, Predicate

MAX_FILED = 8
"""Attributes that routes are filed under at most: each costs every event one look-up."""

PREFERRED = ("type", "source", "subject")
"""Attributes that are preferred, in this order, where the choice is otherwise equal."""

LONGEST_REASON = 300
"""Maximum characters of the reason why a route is refused: reasons are sent with every heartbeat of the router."""

OPS = ("exact", "present", "prefix", "suffix", "gt", "gte", "lt", "lte")
"""Comparisons; the query knows them by their place here, which is cheaper to compare than their names."""


@dataclass(frozen=True)
class Candidate:
    """A route as an event finds it: what is still to be checked, and from which offsets on it counts."""

    uid: str
    start: tuple[int, ...]
    clauses: tuple[Clause, ...] = ()
    predicate: int | None = None
    """Number of the expression that decides, where clauses cannot."""

    @property
    def is_sure(self) -> bool:
        """Whether an event that finds it matches, without anything to be checked."""
        return not self.clauses and self.predicate is None and not any(self.start)

    def as_data(self) -> dict[str, Any]:
        """The candidate as the query's relation has it."""
        return {
            "uid": self.uid,
            "start": self.start,
            "clauses": [[_atom_as_data(atom) for atom in clause] for clause in self.clauses],
            "predicate": self.predicate,
        }


@dataclass(frozen=True)
class Bucket:
    """The candidates of one target, and of one value of the attribute they are filed under."""

    target: str
    key: str | None
    candidates: tuple[Candidate, ...]

    def as_data(self) -> dict[str, Any]:
        """The bucket as a row of the query's relation."""
        return {
            "target": self.target,
            "key": self.key,
            "sure": [found.uid for found in self.candidates if found.is_sure],
            "routes": [found.as_data() for found in self.candidates if not found.is_sure],
        }


@dataclass(frozen=True)
class RouteTable:
    """Every route, filed. Never changes."""

    filed: Mapping[str, tuple[Bucket, ...]] = field(default_factory=dict)
    """By attribute."""
    unfiled: tuple[Bucket, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    """The expressions that candidates name by number."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Routes that are left out, and why."""
    facts: tuple[str, ...] = ()
    """What is asked of data, by any route."""
    targets_on_data: tuple[str, ...] = ()
    """The targets whose events are asked for it: only their data is looked at."""

    @property
    def compares_numbers(self) -> bool:
        """Whether some filter may compare numbers."""
        return any(fact.startswith(NUMBER) for fact in self.facts)

    @property
    def _candidates(self) -> Iterator[Candidate]:
        buckets = (*self.unfiled, *(each for buckets in self.filed.values() for each in buckets))
        return (found for bucket in buckets for found in bucket.candidates)

    @property
    def has_sure(self) -> bool:
        """Whether some routes match by being found alone."""
        return any(found.is_sure for found in self._candidates)

    @property
    def has_unsure(self) -> bool:
        """Whether some routes have to be checked once they are found."""
        return any(not found.is_sure for found in self._candidates)

    def most_matches(self) -> tuple[int, int]:
        """How many routes an event can match at most, and how many bytes the longest of their uids takes."""
        by_target: dict[str, set[str]] = {}
        for bucket in (*self.unfiled, *(each for buckets in self.filed.values() for each in buckets)):
            by_target.setdefault(bucket.target, set()).update(found.uid for found in bucket.candidates)
        uids = by_target.values()
        return max(map(len, uids), default=0), max((len(uid.encode()) for found in uids for uid in found), default=0)

    def starting(self, starts: Mapping[str, tuple[int, ...]]) -> RouteTable:
        """The same routes, those named with other starts."""

        def moved(buckets: tuple[Bucket, ...]) -> tuple[Bucket, ...]:
            return tuple(replace(bucket, candidates=tuple(map(start, bucket.candidates))) for bucket in buckets)

        def start(found: Candidate) -> Candidate:
            return replace(found, start=starts.get(found.uid, found.start))

        filed = {attribute: moved(buckets) for attribute, buckets in self.filed.items()}
        return replace(self, filed=filed, unfiled=moved(self.unfiled))


def index_routes(routes: Iterable[Route]) -> RouteTable:
    """Files the routes."""
    drafts: list[_Draft] = []
    refused: dict[str, str] = {}
    for route in routes:
        try:
            drafts.append(_draft(route))
        except InvalidFilter as error:
            refused[route.uid] = f"its filter cannot be used: {error}"[:LONGEST_REASON]
    sharing = Counter((draft.route.target, *place) for draft in drafts for way in draft.ways for place in way.places)
    kept = _kept_attributes(drafts)
    filed: dict[str, dict[tuple[str, str], list[Candidate]]] = {}
    unfiled: dict[str, list[Candidate]] = {}
    predicates: dict[Predicate, int] = {}
    for draft in drafts:
        route, way = draft.route, _choose(draft, sharing, kept)
        number = None if draft.clauses is not None else predicates.setdefault(draft.predicate, len(predicates))
        if way is None:
            unfiled.setdefault(route.target, []).append(Candidate(route.uid, route.start, draft.clauses or (), number))
            continue
        candidate = Candidate(route.uid, route.start, way.remaining, number)
        for attribute, value in way.places:
            filed.setdefault(attribute, {}).setdefault((route.target, value), []).append(candidate)
    return RouteTable(
        {
            attribute: tuple(Bucket(target, value, tuple(found)) for (target, value), found in buckets.items())
            for attribute, buckets in filed.items()
        },
        tuple(Bucket(target, None, tuple(found)) for target, found in unfiled.items()),
        tuple(predicates),
        refused,
        tuple(sorted({fact for draft in drafts for fact in draft.facts})),
        tuple(sorted({draft.route.target for draft in drafts if draft.facts})),
    )


@dataclass(frozen=True)
class _Way:
    """One way to file a route: the places it is found under, and the clauses that remain to be checked there."""

    places: tuple[tuple[str, str], ...]
    remaining: tuple[Clause, ...]

    @property
    def attribute(self) -> str:
        return self.places[0][0]


@dataclass(frozen=True)
class _Draft:
    """A route whose place is not chosen yet."""

    route: Route
    predicate: Predicate
    clauses: tuple[Clause, ...] | None
    ways: tuple[_Way, ...]

    @property
    def facts(self) -> frozenset[str]:
        return facts_asked(self.predicate)


def _draft(route: Route) -> _Draft:
    """The ways to file a route. Raises InvalidFilter."""
    predicate = parse(route.attributes, route.filters)
    clauses = conjunctive(predicate)
    if clauses is None:
        atom = exact_atom(predicate)
        ways = () if atom is None else (_Way(((atom.attribute, atom.value),), ()),)
        return _Draft(route, predicate, None, ways)
    found = []
    for number, clause in enumerate(clauses):
        plain = all(atom.op == "exact" and not atom.negated for atom in clause)
        if plain and len({atom.attribute for atom in clause}) == 1:
            places = tuple((atom.attribute, atom.value) for atom in clause)
            found.append(_Way(places, clauses[:number] + clauses[number + 1 :]))
    return _Draft(route, predicate, clauses, tuple(found))


def _kept_attributes(drafts: list[_Draft]) -> set[str]:
    """The attributes that most routes can be filed under."""
    uses = Counter(attribute for draft in drafts for attribute in {way.attribute for way in draft.ways})
    return set(sorted(uses, key=lambda attribute: (-uses[attribute], _rank(attribute)))[:MAX_FILED])


def _choose(draft: _Draft, sharing: Counter[tuple[str, str, str]], kept: set[str]) -> _Way | None:
    """The way under which the route has the least company."""

    def company(way: _Way) -> tuple[int, tuple[int, str]]:
        return max(sharing[(draft.route.target, *place)] for place in way.places), _rank(way.attribute)

    return min((way for way in draft.ways if way.attribute in kept), key=company, default=None)


def _rank(attribute: str) -> tuple[int, str]:
    return PREFERRED.index(attribute) if attribute in PREFERRED else len(PREFERRED), attribute


def _atom_as_data(atom: Atom) -> dict[str, Any]:
    header = header_of(atom.attribute)
    data = {"op": OPS.index(atom.op), "header": header, "value": atom.value, "negated": atom.negated}
    return {**data, "number": float(atom.value)} if atom.op in COMPARE else data


def header_of(attribute: str) -> str:
    """The header of a record under which an attribute is stored; what data says is found under its own name."""
    if is_fact(attribute):
        return attribute
    return CONTENT_TYPE if attribute == "datacontenttype" else PREFIX + attribute
