"""Tokens of ServiceAccounts and users: whom they stand for, for what, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.apiserver.access import account_tokens, identity, signing_keys
from penstock.apiserver.access.authentication import Authenticator
from penstock.apiserver.access.identity import KnownTokens, Revocations, User, revoke_user_tokens
from penstock.apiserver.access.signing_keys import KEY_FILE, Signer, load_signer
from penstock.apiserver.errors import ApiError
from tests.unit.apiserver.api_in_process import ApiInProcess

NOW = 1_800_000_000.0
ACCOUNT = {"metadata": {"name": "bot", "namespace": "ns", "uid": "u-1"}}
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "p-1"}, "spec": {"serviceAccountName": "bot"}}
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class World:
    """What is stored, and what time it is."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Any] = {
            ("serviceaccounts", "ns", "bot"): ACCOUNT,
            ("pods", "ns", "p"): POD,
        }
        self.now = NOW
        self.signer = Signer(ec.generate_private_key(ec.SECP256R1()))
        static = KnownTokens([("secret", User("root", ("system:masters",)))])
        self.authenticator = Authenticator(static, self.signer, self.lookup, lambda: self.now)

    def lookup(self, resource: str, namespace: str, name: str) -> Any:
        return self.objects.get((resource, namespace, name))

    def issue(self, **spec: Any) -> str:
        issued = account_tokens.issue_token(
            {"spec": spec}, "ns", "bot", lookup=self.lookup, signer=self.signer, now=self.now
        )
        return str(issued["status"]["token"])

    def user(self, token: str) -> User | None:
        return self.authenticator.user(f"Bearer {token}")


@pytest.fixture
def world() -> World:
    return World()


def test_a_token_stands_for_its_account(world: World) -> None:
    user = world.user(world.issue())
    assert user is not None
    assert (user.name, user.uid) == ("system:serviceaccount:ns:bot", "u-1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")


def test_a_token_ends_with_its_time(world: World) -> None:
    token = world.issue(expirationSeconds=600)
    world.now = NOW + 599
    assert world.user(token)
    world.now = NOW + 600
    assert world.user(token) is None


def test_a_token_ends_with_its_account_for_good(world: World) -> None:
    token = world.issue()
    del world.objects["serviceaccounts", "ns", "bot"]
    assert world.user(token) is None
    world.objects["serviceaccounts", "ns", "bot"] = {"metadata": {**ACCOUNT["metadata"], "uid": "u-2"}}
    assert world.user(token) is None


def test_a_bound_token_ends_with_its_pod(world: World) -> None:
    token = world.issue(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-1"})
    user = world.user(token)
    assert user is not None
    assert ("authentication.kubernetes.io/pod-name", ("p",)) in user.extra
    del world.objects["pods", "ns", "p"]
    assert world.user(token) is None


def test_a_token_is_for_its_audience(world: World) -> None:
    token = world.issue(audiences=["vault", "shop"])
    assert world.user(token) is None
    authenticated = world.authenticator.authenticate(token, ["other", "shop"])
    assert authenticated is not None
    assert authenticated.audiences == ("shop",)


def test_only_tokens_signed_here_count(world: World) -> None:
    claims = account_tokens.account_claims(
        ACCOUNT, audiences=[*account_tokens.AUDIENCES], seconds=600, bound=None, now=NOW
    )
    assert world.user(world.signer.sign(claims))
    assert world.user(Signer(ec.generate_private_key(ec.SECP256R1())).sign(claims)) is None
    assert world.user(jwt.encode(claims, "", algorithm="none")) is None
    assert world.user(world.signer.sign({**claims, "iss": "somebody"})) is None
    assert world.user(world.signer.sign({"iss": account_tokens.API_ISSUER, "sub": "x"})) is None
    for header in (None, "", "Bearer ", "Bearer x", "Basic secret"):
        assert world.authenticator.user(header) is None


def test_wrong_tokens_do_not_push_right_ones_out_of_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = world.issue()
    assert world.user(token) is not None
    for number in range(2 * signing_keys.MAX_CACHED):
        assert world.user(f"{token}{number}" if number < 10 else f"wrong-{number}") is None

    def checked(*_: object, **__: object) -> None:
        raise AssertionError("the signature is checked again")

    monkeypatch.setattr(jwt, "decode", checked)
    assert world.user(token) is not None


def test_a_user_with_a_signed_token(world: World) -> None:
    token = identity.issue_user_token("jane", ["shop"], seconds=60, signer=world.signer, now=NOW)
    assert world.user(token) == User("jane", ("shop", "system:authenticated"))
    world.now += 60
    assert world.user(token) is None


@pytest.mark.parametrize(
    ("spec", "code", "told"),
    [
        ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"expirationSeconds": "1h"}, 400, "not a number"),
        ({"boundObjectRef": {"kind": "Pod", "name": "none"}}, 404, 'pods "none" not found'),
        ({"boundObjectRef": {"kind": "Pod", "name": "p", "uid": "other"}}, 409, "does not match the UID in record"),
        ({"boundObjectRef": {"kind": "Service", "name": "p"}}, 400, "cannot bind token to object of type"),
    ],
)
def test_what_cannot_be_issued(world: World, spec: dict[str, Any], code: int, told: str) -> None:
    with pytest.raises(ApiError) as refused:
        world.issue(**spec)
    assert refused.value.code == code
    assert told in refused.value.message


def test_a_token_is_not_bound_to_a_pod_of_another_account(world: World) -> None:
    world.objects["pods", "ns", "p"] = {**POD, "spec": {}}
    with pytest.raises(ApiError, match="different serviceaccount name"):
        world.issue(boundObjectRef={"kind": "Pod", "name": "p"})


def test_the_key_is_kept_and_private(tmp_path: Path) -> None:
    claims = {"iss": "x", "sub": "y", "exp": 2, "nbf": 0}
    token = load_signer(tmp_path).sign(claims)
    assert load_signer(tmp_path).read(token, 1) == claims
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.asyncio(loop_scope="module")
async def test_tokens_over_the_api(api: ApiInProcess) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "tokens"}})
    account = "/api/v1/namespaces/tokens/serviceaccounts"
    await api.made(account, {"metadata": {"name": "bot"}})
    issued = await api.made(f"{account}/bot/token", {"spec": {"audiences": ["vault"]}})
    assert issued["spec"] == {"audiences": ["vault"], "expirationSeconds": 3600}
    token = issued["status"]["token"]
    review = {"spec": {"token": token, "audiences": ["vault"]}}
    told = (await api.made(REVIEWS, review))["status"]
    assert told["authenticated"]
    assert told["audiences"] == ["vault"]
    assert told["user"]["username"] == "system:serviceaccount:tokens:bot"
    assert (await api.call("GET", "/version", token=token))[0] == 401
    mine = (await api.made(f"{account}/bot/token", {}))["status"]["token"]
    assert (await api.call("GET", "/version", token=mine))[0] == 200
    assert (await api.call("GET", account, token=mine))[0] == 403
    assert (await api.call("POST", f"{account}/bot/token", {}, token=mine))[0] == 403
    assert (await api.call("DELETE", f"{account}/bot"))[0] == 200
    assert (await api.call("GET", "/version", token=mine))[0] == 401
    assert not (await api.made(REVIEWS, review))["status"]["authenticated"]
    assert (await api.call("POST", f"{account}/bot/token", {}))[0] == 404
    assert (await api.call("GET", f"{account}/default/token"))[0] == 405


def test_tokens_of_a_user_are_taken_back_and_new_ones_hold(world: World, tmp_path: Path) -> None:
    revoked = Revocations(tmp_path)
    world.authenticator = Authenticator(
        KnownTokens([]), world.signer, world.lookup, lambda: world.now, revoked.is_revoked
    )
    jane, joe = (
        identity.issue_user_token(name, [], seconds=600, signer=world.signer, now=NOW + 0.2) for name in ("jane", "joe")
    )
    account = world.issue()
    world.now = NOW + 1
    assert all(world.user(token) for token in (jane, joe, account))
    revoke_user_tokens(tmp_path, "jane", NOW + 0.5)
    assert (world.user(jane), world.user(joe) is None) == (None, False)
    revoke_user_tokens(tmp_path, "system:serviceaccount:ns:bot", NOW + 0.5)
    assert (world.user(account), world.user(jane)) == (None, None)
    assert world.user(identity.issue_user_token("jane", [], seconds=600, signer=world.signer, now=NOW + 0.7))
    assert (tmp_path / "revoked.json").stat().st_mode & 0o077 == 0
