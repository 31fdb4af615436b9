"""What the EventPolicies of a target allow, and its default mode where there is none. Pure.

Whoever one policy lets in is in: policies only ever add.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.contract.routes import Access, Policy, Target
from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import AnyOf, Everything, Not, Predicate

ACCOUNT_PREFIX = "system:serviceaccount:"

NOTHING = Not(Everything())


class TargetRules:
    """The rules of one target, with its filters parsed."""

    __slots__ = ("_namespace", "_policies", "access")

    def __init__(self, target: Target, access: Access) -> None:
        self.access, self._namespace = access, target.namespace
        self._policies = [(policy, _predicate(policy)) for policy in access.policies]

    def why_not(self, subject: str) -> str | None:
        """Why nothing of what the subject sends is taken; None where some events may be."""
        if self._policies:
            if any(names(policy.subjects, subject) for policy, _ in self._policies):
                return None
            listed = ", ".join(policy.name for policy, _ in self._policies)
            return f'none of the event policies that apply here ({listed}) is for the subject "{subject}"'
        mode = self.access.default_mode
        if mode == "deny-all":
            return "no event policy applies here, and default-authorization-mode is deny-all"
        if mode == "allow-same-namespace" and not subject.startswith(f"{ACCOUNT_PREFIX}{self._namespace}:"):
            return (
                "no event policy applies here, default-authorization-mode is allow-same-namespace, "
                f'and the subject "{subject}" is no ServiceAccount of the namespace "{self._namespace}"'
            )
        return None

    def why_not_these(self, subject: str, events: Iterable[CloudEvent]) -> str | None:
        """Why these events of a subject that may send are not taken."""
        filters = [predicate for policy, predicate in self._policies if names(policy.subjects, subject)]
        if not filters or any(isinstance(predicate, Everything) for predicate in filters):
            return None
        wanted = AnyOf(tuple(filters))
        for event in events:
            if not matches_event(wanted, event):
                return f'the event policies for the subject "{subject}" do not let the event "{event.id}" pass'
        return None


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
