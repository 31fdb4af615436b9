"""Which Secrets a Trigger or Subscription uses, whether they are of use, and the condition that says so.

A route whose Secret is missing or malformed sends nothing until that is mended: its events wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.conditions import ConditionFinding, false, true
from penstock.resources.delivery.annotations import CLIENT_CERTIFICATE, SIGN_WITH
from penstock.resources.secrets.client_certificate import client_certificate
from penstock.resources.secrets.content import MalformedSecret, content_of
from penstock.resources.secrets.signing import signing_keys

SECRETS_RESOLVED = "SecretsResolved"
"""There only where a Secret is asked for."""

Look = Callable[[str], Mapping[str, Any] | str]
"""The Secret of this name in the namespace, or why there is none and what to do."""


@dataclass(frozen=True)
class Use:
    """What a Secret is for."""

    annotation: str
    word: str
    """What the reasons of the condition begin with."""
    read: Callable[[Mapping[str, bytes]], object]
    """Raises MalformedSecret where it does not hold what it should."""


SIGNING = Use(SIGN_WITH, "SigningSecret", signing_keys)
SHOWING = Use(CLIENT_CERTIFICATE, "ClientCertificate", client_certificate)


@dataclass(frozen=True)
class UsedSecret:
    """A Secret that is asked for, as it was found."""

    name: str
    version: str = ""
    """Empty: it is of no use."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class UsedSecrets:
    """All that a Trigger or Subscription asks for."""

    signing: UsedSecret | None = None
    client_certificate: UsedSecret | None = None

    def findings(self) -> list[ConditionFinding]:
        """The condition, where there is anything to say."""
        used = [one for one in (self.signing, self.client_certificate) if one is not None]
        if not used:
            return []
        useless = next((one for one in used if one.reason), None)
        return [true(SECRETS_RESOLVED) if useless is None else false(SECRETS_RESOLVED, useless.reason, useless.message)]


NONE = UsedSecrets()


def find_secret(use: Use, name: str | None, look: Look) -> UsedSecret | None:
    """The Secret that an annotation names; None where it names none."""
    if name is None:
        return None
    found = look(name)
    subject = _subject(use)
    if isinstance(found, str):
        return UsedSecret(name, reason=f"{use.word}Missing", message=f"{subject}: {found}.")
    try:
        use.read(content_of(found))
    except MalformedSecret as problem:
        return UsedSecret(name, reason=f"{use.word}Malformed", message=f'{subject}: of the Secret "{name}", {problem}.')
    return UsedSecret(name, str(found["metadata"].get("resourceVersion") or ""))


def find_certificate(name: str | None, subscriber: str | None, look: Look) -> UsedSecret | None:
    """The Secret with the client certificate. Over plain HTTP none can be shown, and that is not passed over."""
    if name is not None and subscriber is not None and not subscriber.startswith("https:"):
        reason = (
            "is not https, so that no certificate can be shown. Use an address with https, or remove the annotation"
        )
        message = f"{_subject(SHOWING)}: {subscriber} {reason}."
        return UsedSecret(name, reason="ClientCertificateUnused", message=message)
    return find_secret(SHOWING, name, look)


def _subject(use: Use) -> str:
    return f"Nothing is sent, and events wait, because of the annotation {use.annotation}"
