"""Names derived from those of objects by Knative's rules: audiences, ServiceAccounts and their subjects."""

from __future__ import annotations

import hashlib
import re

ACCOUNT_PREFIX = "system:serviceaccount:"
LONGEST_NAME = 63
_DIGEST_LENGTH = 32


def audience_of(group: str, kind: str, namespace: str, name: str) -> str:
    """The audience of tokens that are sent to this object."""
    return f"{group}/{kind}/{namespace}/{name}".lower()


def account_of(group: str, kind: str, name: str) -> str:
    """The ServiceAccount as which this object sends."""
    return child_name(name, f"-oidc-{group}-{kind}").lower()


def subject_of(namespace: str, account: str) -> str:
    """The subject of tokens of a ServiceAccount."""
    return f"{ACCOUNT_PREFIX}{namespace}:{account}"


def child_name(parent: str, suffix: str) -> str:
    """A name of two parts by Knative's rule: if it is too long, it is cut and gets a digest."""
    if len(parent) + len(suffix) <= LONGEST_NAME:
        return parent + suffix
    kept = LONGEST_NAME - _DIGEST_LENGTH
    if len(suffix) >= kept:
        cut = parent[:kept] + _digest(parent + suffix)
        return re.sub(r"[^a-zA-Z0-9]+$", "", cut + suffix[: LONGEST_NAME - len(cut)])
    return parent[: kept - len(suffix)] + _digest(parent) + suffix


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
