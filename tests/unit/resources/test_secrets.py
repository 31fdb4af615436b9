"""Secrets that Triggers and Subscriptions name: what they must hold, and what is said of those that do not."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from penstock.resources.conditions import false, true
from penstock.resources.delivery import CLIENT_CERTIFICATE, SIGN_WITH, RouteOptions, check_options
from penstock.resources.secrets import (
    MOST,
    SECRETS_RESOLVED,
    SIGNING,
    MalformedSecret,
    UsedSecrets,
    client_certificate,
    content_of,
    find_certificate,
    find_secret,
    signing_keys,
)
from penstock.web.certificates import KeyPair
from tests.certificate_files import authority, client_of

GOOD = b"whsec_" + base64.b64encode(b"s" * 32)


def secret(**held: bytes) -> dict[str, Any]:
    data = {name: base64.b64encode(value).decode() for name, value in held.items()}
    return {"metadata": {"name": "keys", "resourceVersion": "12"}, "data": data}


def told(found: dict[str, Any] | str) -> UsedSecrets:
    return UsedSecrets(find_secret(SIGNING, "keys", lambda _: found))


@given(st.binary(min_size=24, max_size=64))
def test_what_others_accept_as_a_secret_is_accepted(key: bytes) -> None:
    text = "whsec_" + base64.b64encode(key).decode()
    assert signing_keys({"any": f"{text}\n".encode()}) == (key,)
    assert Webhook(text)._whsecret == key


def test_all_are_in_force_in_the_order_of_their_names() -> None:
    held = {"2026-11": GOOD, "2025-11": b"whsec_" + base64.b64encode(b"t" * 24)}
    assert signing_keys(held) == (b"t" * 24, b"s" * 32)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"hunter2",
        b"whsec_",
        b"whsec_hunter2",
        b"whsec_\xff\xfe",
        base64.b64encode(b"s" * 32),
        b"whsec_" + base64.b64encode(b"s" * 23),
        b"whsec_" + base64.b64encode(b"s" * 65),
        b"whsk_" + base64.b64encode(b"s" * 32),
    ],
)
def test_another_form_is_told_by_its_key_and_never_shown(text: bytes) -> None:
    (finding,) = told(secret(good=GOOD, bad=text)).findings()
    assert (finding.status, finding.reason) == ("False", "SigningSecretMalformed")
    assert "'bad'" in finding.message
    assert "whsec_<base64 of 24 to 64 random bytes>" in finding.message
    assert "hunter2" not in finding.message


def test_none_and_too_many_are_told() -> None:
    with pytest.raises(MalformedSecret, match="it holds no secret; add one"):
        signing_keys({})
    with pytest.raises(MalformedSecret, match="9 secrets, and 8 can be in force at once"):
        signing_keys({str(number): GOOD for number in range(MOST + 1)})


def test_the_condition_says_what_to_do() -> None:
    assert UsedSecrets().findings() == []
    assert told(secret(only=GOOD)).findings() == [true(SECRETS_RESOLVED)]
    assert told("it is not there. Create it").findings() == [
        false(
            SECRETS_RESOLVED,
            "SigningSecretMissing",
            "Nothing is sent, and events wait, because of the annotation penstock.dev/sign-with: "
            "it is not there. Create it.",
        )
    ]


def test_only_a_secret_of_use_has_a_version() -> None:
    assert find_secret(SIGNING, None, lambda _: secret(only=GOOD)) is None
    found = [find_secret(SIGNING, "keys", lambda _, one=one: one) for one in (secret(only=GOOD), secret(), "gone")]  # type: ignore[misc]
    assert [one.version for one in found if one is not None] == ["12", "", ""]


def test_data_that_is_not_base64_is_told_without_it() -> None:
    with pytest.raises(MalformedSecret, match="its data is not in base64") as caught:
        content_of({"data": {"a": "hunter2!"}})
    assert "hunter2" not in repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["", "Keys", "a b", "-a", "a" * 254])
@pytest.mark.parametrize(
    ("annotation", "option"), [(SIGN_WITH, "sign_with"), (CLIENT_CERTIFICATE, "client_certificate")]
)
def test_a_name_that_no_secret_has_is_refused_and_counts_as_one_that_is_missing(
    annotation: str, option: str, name: str
) -> None:
    obj = {"metadata": {"annotations": {annotation: name}}}
    (error,) = check_options(obj)
    assert error.paths == (f"metadata.annotations[{annotation}]",)
    assert getattr(RouteOptions.read(obj), option) == name


# --- client certificates ---------------------------------------------------------------------------------------------

AUTHORITY = authority("clients")
PAIR, OTHER = client_of(AUTHORITY, "till"), client_of(AUTHORITY, "other")


def test_a_certificate_with_its_key_is_taken_with_those_that_lead_to_the_authority() -> None:
    chain = PAIR.certificate + AUTHORITY.certificate
    assert client_certificate({"tls.crt": chain, "tls.key": PAIR.key, "ca.crt": b""}) == KeyPair(chain, PAIR.key)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "the key tls.crt and tls.key is missing; it has to be of the type kubernetes.io/tls"),
        ({"tls.crt": PAIR.certificate}, "the key tls.key is missing"),
        ({"tls.crt": PAIR.certificate, "tls.key": OTHER.key}, "the certificate is that of another key"),
        ({"tls.crt": PAIR.key, "tls.key": PAIR.key}, "the certificate is not in PEM"),
        ({"tls.crt": PAIR.certificate, "tls.key": b"hunter2"}, "the key is not in PEM"),
        ({"tls.crt": PAIR.certificate, "tls.key": PAIR.certificate}, "the key is not in PEM"),
    ],
)
def test_what_cannot_be_shown_is_told(content: dict[str, bytes], words: str) -> None:
    with pytest.raises(MalformedSecret, match=words) as caught:
        client_certificate(content)
    assert "hunter2" not in str(caught.value)


def test_a_key_with_a_passphrase_is_told() -> None:
    key = serialization.load_pem_private_key(PAIR.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    with pytest.raises(MalformedSecret, match="the key has a passphrase"):
        client_certificate({"tls.crt": PAIR.certificate, "tls.key": locked})


def test_over_plain_http_nothing_can_be_shown_and_nothing_is_sent() -> None:
    found = secret(**{"tls.crt": PAIR.certificate, "tls.key": PAIR.key})
    used = [find_certificate("tls", url, lambda _: found) for url in ("https://s/", None, "http://s/")]
    assert [one.version for one in used if one is not None] == ["12", "12", ""]
    (finding,) = UsedSecrets(None, used[2]).findings()
    assert (finding.status, finding.reason) == ("False", "ClientCertificateUnused")
    assert "http://s/ is not https" in finding.message
