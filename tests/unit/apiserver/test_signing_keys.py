"""Keys of tokens: which one signs, when it is replaced, and for how long what it signed is taken."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from penstock.apiserver.access.signing_keys import (
    AHEAD_SECONDS,
    DAY,
    KeyFile,
    KeyUpkeep,
    key_files,
    key_upkeep,
    load_signer,
    rotate_keys,
    signing_key,
)
from tests.unit.apiserver.api_in_process import ApiInProcess

CLAIMS = {"iss": "x", "sub": "y", "exp": 10**12, "nbf": 0}


def key(made: float) -> KeyFile:
    return KeyFile(made, Path(f"tokens-{made}.key"))


def test_a_new_key_does_not_sign_before_everybody_can_know_it() -> None:
    keys = [key(0.0), key(1e6)]
    assert signing_key(keys, 1e6 + AHEAD_SECONDS - 1) == keys[0]
    assert signing_key(keys, 1e6 + AHEAD_SECONDS) == keys[1]
    assert signing_key(keys[1:], 1e6) == keys[1]


def test_what_is_due() -> None:
    days = 10.0
    assert key_upkeep([], 0.0, days) == KeyUpkeep(True, ())
    assert key_upkeep([key(0.0)], days * DAY - 1, days) == KeyUpkeep(False, ())
    assert key_upkeep([key(0.0)], days * DAY, days) == KeyUpkeep(True, ())
    two = [key(days * DAY), key(0.0)]
    assert key_upkeep(two, days * DAY + 1, days) == KeyUpkeep(False, ())
    assert key_upkeep(two, 2 * days * DAY + AHEAD_SECONDS, days) == KeyUpkeep(True, (key(0.0),))


def test_two_keys_count_while_one_takes_over_from_the_other(tmp_path: Path) -> None:
    signer = load_signer(tmp_path)
    old = signer.sign(CLAIMS)
    made = key_files(tmp_path)[0].made
    rotate_keys(tmp_path, signer, 10, later := made + 10 * DAY)
    assert len(signer.published()) == 2
    assert jwt.get_unverified_header(signer.sign(CLAIMS))["kid"] == jwt.get_unverified_header(old)["kid"]
    rotate_keys(tmp_path, signer, 10, later + AHEAD_SECONDS)
    new = signer.sign(CLAIMS)
    assert jwt.get_unverified_header(new)["kid"] != jwt.get_unverified_header(old)["kid"]
    assert signer.read(old, 1) == signer.read(new, 1) == CLAIMS
    assert load_signer(tmp_path, later + AHEAD_SECONDS).sign(CLAIMS) != ""
    rotate_keys(tmp_path, signer, 10, later + AHEAD_SECONDS + 10 * DAY)
    assert signer.read(old, 1) is None
    assert signer.read(new, 1) == CLAIMS
    assert {path.stat().st_mode & 0o777 for _, path in key_files(tmp_path)} == {0o600}


def test_a_token_of_an_earlier_version_names_no_key(tmp_path: Path) -> None:
    signer = load_signer(tmp_path)
    nameless = jwt.encode(CLAIMS, signer._private, algorithm="ES256")  # as it was signed before
    assert signer.read(nameless, 1) == CLAIMS


def test_a_token_lives_no_longer_than_its_key_is_known(tmp_path: Path) -> None:
    signer = load_signer(tmp_path)
    rotate_keys(tmp_path, signer, 10, 0.0)
    assert signer.longest_seconds == 10 * DAY


@pytest.mark.asyncio(loop_scope="module")
async def test_the_api_tells_where_its_keys_are_and_shows_them_to_everybody(api: ApiInProcess) -> None:
    status, told = await api.call("GET", "/.well-known/openid-configuration", token="")
    assert (status, told["issuer"]) == (200, "https://kubernetes.default.svc.cluster.local")
    assert told["jwks_uri"].endswith("/openid/v1/jwks")
    assert told["id_token_signing_alg_values_supported"] == ["ES256"]
    status, keys = await api.call("GET", "/openid/v1/jwks", token="")
    assert status == 200
    await api.made("/api/v1/namespaces", {"metadata": {"name": "issuer"}})
    account = "/api/v1/namespaces/issuer/serviceaccounts"
    await api.made(account, {"metadata": {"name": "bot"}})
    token = (await api.made(f"{account}/bot/token", {"spec": {"audiences": ["vault"]}}))["status"]["token"]
    [listed] = [one for one in keys["keys"] if one["kid"] == jwt.get_unverified_header(token)["kid"]]
    assert "d" not in listed
    claims = jwt.decode(token, jwt.PyJWK(listed), algorithms=["ES256"], audience="vault", issuer=told["issuer"])
    assert claims["sub"] == "system:serviceaccount:issuer:bot"
