"""What the EventPolicies of a target allow, and its default mode where there is none. Pure.

Whoever one policy lets in is in: policies only ever add.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.contract.routes import Access, Policy
from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import AnyOf, Everything, Not, Predicate
from penstock.oidc.names import ACCOUNT_PREFIX

NOTHING = Not(Everything())


MOST_SUBJECTS = 1000
"""Subjects of which it is kept what they may send."""


class TargetRules:
    """The rules of one target, with its filters parsed."""

    __slots__ = ("_allowed", "_own", "_policies", "access")

    def __init__(self, namespace: str, access: Access) -> None:
        """`namespace` is the target's."""
        self.access = access
        self._own = f"{ACCOUNT_PREFIX}{namespace}:"
        self._policies = [(policy, _predicate(policy)) for policy in access.policies]
        self._allowed: dict[str, Predicate | None] = {}

    def why_not(self, subject: str) -> str | None:
        """Why nothing of what the subject sends is taken; None where some events may be."""
        if self._policies:
            if self._wanted(subject) is not None:
                return None
            listed = ", ".join(policy.name for policy, _ in self._policies)
            return f'none of the event policies that apply here ({listed}) is for the subject "{subject}"'
        mode = self.access.default_mode
        if mode == "deny-all":
            return "no event policy applies here, and default-authorization-mode is deny-all"
        if mode == "allow-same-namespace" and not subject.startswith(self._own):
            return (
                "no event policy applies here, default-authorization-mode is allow-same-namespace, "
                f'and the subject "{subject}" is no ServiceAccount of the target\'s namespace'
            )
        return None

    def why_not_these(self, subject: str, events: Iterable[CloudEvent]) -> str | None:
        """Why these events of a subject that may send are not taken."""
        if not self._policies:
            return None
        wanted = self._wanted(subject)
        if isinstance(wanted, Everything):
            return None
        for event in events:
            if wanted is None or not matches_event(wanted, event):
                return f'the event policies for the subject "{subject}" do not let the event "{event.id}" pass'
        return None

    def _wanted(self, subject: str) -> Predicate | None:
        """What the policies take of what the subject sends; None: nothing."""
        if subject not in self._allowed:
            if len(self._allowed) >= MOST_SUBJECTS:
                self._allowed.clear()
            self._allowed[subject] = _any([one for policy, one in self._policies if names(policy.subjects, subject)])
        return self._allowed[subject]


def _any(predicates: list[Predicate]) -> Predicate | None:
    if any(isinstance(predicate, Everything) for predicate in predicates):
        return Everything()
    if len(predicates) == 1:
        return predicates[0]
    return AnyOf(tuple(predicates)) if predicates else None


def names(patterns: Iterable[str], subject: str) -> bool:
    """Whether the subject is one of those, or begins as one with a `*` at its end does."""
    return any(
        pattern == subject or (pattern.endswith("*") and subject.startswith(pattern[:-1])) for pattern in patterns
    )


def _predicate(policy: Policy) -> Predicate:
    try:
        return parse(None, policy.filters)
    except InvalidFilter:
        # Admission lets no such policy through; one that is there all the same must not open the door.
        return NOTHING
