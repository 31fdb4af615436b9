"""The names that follow from those of objects, as Knative forms them: audiences, ServiceAccounts and their subjects."""

from __future__ import annotations

import hashlib
import re

ACCOUNT_PREFIX = "system:serviceaccount:"
LONGEST_NAME = 63
_DIGEST_LENGTH = 32


def audience_of(group: str, kind: str, namespace: str, name: str) -> str:
    """What a token must be for that is sent to this object."""
    return f"{group}/{kind}/{namespace}/{name}".lower()


def account_of(group: str, kind: str, name: str) -> str:
    """The ServiceAccount as which this object sends."""
    return child_name(name, f"-oidc-{group}-{kind}").lower()


def subject_of(namespace: str, account: str) -> str:
    """What tokens of a ServiceAccount call it."""
    return f"{ACCOUNT_PREFIX}{namespace}:{account}"


def child_name(parent: str, suffix: str) -> str:
    """A name made of two parts by Knative's rule: what is too long is cut, and told apart by a digest."""
    if len(parent) + len(suffix) <= LONGEST_NAME:
        return parent + suffix
    room = LONGEST_NAME - _DIGEST_LENGTH
    if len(suffix) >= room:
        cut = parent[:room] + _digest(parent + suffix)
        return re.sub(r"[^a-zA-Z0-9]+$", "", cut + suffix[: LONGEST_NAME - len(cut)])
    return parent[: room - len(suffix)] + _digest(parent) + suffix


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
