"""Secrets that Triggers and Subscriptions name: what they must hold, and what is said of those that do not."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from penstock.resources.conditions import false, true
from penstock.resources.options import RouteOptions, check_options
from penstock.resources.secrets.content import Malformed, content_of
from penstock.resources.secrets.signing import MOST, signing_keys
from penstock.resources.secrets.uses import SECRETS_RESOLVED, SIGNING, UsedSecrets, find_secret

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
    with pytest.raises(Malformed, match="it holds no secret; add one"):
        signing_keys({})
    with pytest.raises(Malformed, match="9 secrets, and 8 can be in force at once"):
        signing_keys({str(number): GOOD for number in range(MOST + 1)})


def test_the_condition_says_what_to_do() -> None:
    assert UsedSecrets().findings() == []
    assert told(secret(only=GOOD)).findings() == [true(SECRETS_RESOLVED)]
    assert told('secrets "keys" not found').findings() == [
        false(
            SECRETS_RESOLVED,
            "SigningSecretMissing",
            "Nothing is sent, and events wait, because of the annotation penstock.dev/sign-with: "
            'secrets "keys" not found. Create it, or correct the name.',
        )
    ]


def test_only_a_secret_of_use_has_a_version() -> None:
    assert find_secret(SIGNING, None, lambda _: secret(only=GOOD)) is None
    found = [find_secret(SIGNING, "keys", lambda _, one=one: one) for one in (secret(only=GOOD), secret(), "gone")]  # type: ignore[misc]
    assert [one.version for one in found if one is not None] == ["12", "", ""]


def test_data_that_is_not_base64_is_told_without_it() -> None:
    with pytest.raises(Malformed, match="its data is not in base64") as caught:
        content_of({"data": {"a": "hunter2!"}})
    assert "hunter2" not in repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["", "Keys", "a b", "-a", "a" * 254])
def test_a_name_that_no_secret_has_is_refused_and_counts_as_one_that_is_missing(name: str) -> None:
    obj = {"metadata": {"annotations": {"penstock.dev/sign-with": name}}}
    (error,) = check_options(obj)
    assert error.paths == ("metadata.annotations[penstock.dev/sign-with]",)
    assert RouteOptions.read(obj).sign_with == name
