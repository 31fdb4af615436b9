"""A Secret as the API has it: its data in base64. Errors never contain its values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.resources.conditions import ConditionFinding, false, true
from penstock.resources.delivery import CLIENT_CERTIFICATE, SIGN_WITH

if TYPE_CHECKING:
    from penstock.web.certificates import KeyPair


class MalformedSecret(ValueError):
    """The Secret does not hold what it should; the text says what to do, and nothing of what it holds."""


def content_of(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """The data of a Secret, by key. Raises MalformedSecret."""
    try:
        return {name: base64.b64decode(str(text), validate=True) for name, text in (secret.get("data") or {}).items()}
    except (binascii.Error, ValueError):
        # The cause would be shown with what it is about.
        raise MalformedSecret("its data is not in base64") from None


# Secrets of the type `kubernetes.io/tls` with the certificate that is shown to subscribers.

CERTIFICATE, KEY = "tls.crt", "tls.key"


def client_certificate(content: Mapping[str, bytes]) -> KeyPair:
    """The certificate with its key. Raises MalformedSecret."""
    from penstock.web.certificates import KeyPair, NotAPair, check_pair

    missing = [name for name in (CERTIFICATE, KEY) if not content.get(name)]
    if missing:
        raise MalformedSecret(f"the key {' and '.join(missing)} is missing; it has to be of the type kubernetes.io/tls")
    pair = KeyPair(content[CERTIFICATE], content[KEY])
    try:
        check_pair(pair)
    except NotAPair as problem:
        raise MalformedSecret(f"{CERTIFICATE} and {KEY} cannot be used: {problem}") from None
    return pair


# Secrets that deliveries are signed with, as Standard Webhooks has them: `whsec_` and 24 to 64 bytes in base64. Every
# key of the Secret holds one, and all of them are in force: a new one is added, receivers learn it, the old one goes.

PREFIX = b"whsec_"
SHORTEST_BYTES, LONGEST_BYTES = 24, 64
MOST = 8
"""Secrets in force at once: each is a signature in every request."""

SigningKeys = tuple[bytes, ...]


def signing_keys(content: Mapping[str, bytes]) -> SigningKeys:
    """What to sign with, in the order of their names. Raises MalformedSecret."""
    if not content:
        raise MalformedSecret(f"it holds no secret; add one under any key, in the form {_FORM}")
    if len(content) > MOST:
        raise MalformedSecret(f"it holds {len(content)} secrets, and {MOST} can be in force at once; remove the oldest")
    return tuple(_key(name, content[name].strip()) for name in sorted(content))


_FORM = f"{PREFIX.decode()}<base64 of {SHORTEST_BYTES} to {LONGEST_BYTES} random bytes>"


def _key(name: str, text: bytes) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not SHORTEST_BYTES <= len(key) <= LONGEST_BYTES:
        raise MalformedSecret(
            f"what is under its key {name!r} is not of the form {_FORM}; replace it, or remove the key"
        )
    return key


# Which Secrets a Trigger or Subscription uses, whether they are valid, and the condition about that. A route whose
# Secret is missing or malformed sends nothing until it is fixed: its events wait.

SECRETS_RESOLVED = "SecretsResolved"
"""The condition; present only where an annotation names a Secret."""

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
    """A Secret that an annotation names, and its state."""

    name: str
    version: str = ""
    """Empty: it cannot be used."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class UsedSecrets:
    """The Secrets of a Trigger or Subscription."""

    signing: UsedSecret | None = None
    client_certificate: UsedSecret | None = None

    def findings(self) -> list[ConditionFinding]:
        """The condition, where there is anything to say."""
        used = [one for one in (self.signing, self.client_certificate) if one is not None]
        if not used:
            return []
        useless = next((one for one in used if one.reason), None)
        return [true(SECRETS_RESOLVED) if useless is None else false(SECRETS_RESOLVED, useless.reason, useless.message)]


NO_SECRETS = UsedSecrets()


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
