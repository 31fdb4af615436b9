"""Tokens for what SinkBindings bind: a Secret that holds one for the sink's audience, mounted by the subject's Pods."""

from __future__ import annotations

import base64
import time
from typing import Any

import jwt
import pytest

from penstock.kube.kinds import CONFIG_MAP, CONTAINER_SOURCE, DEPLOYMENT, SECRET, SINK_BINDING, Key, Kind, Obj
from penstock.oidc.tokens import Issued, NoToken, TokenRequests, WantedToken, remaining
from tests.unit.controllers.api_double import refuse
from tests.unit.controllers.memory_plane import ControlPlane

SINK = {"uri": "https://sink", "audience": "sink"}
NAME = "d-oidc-token"
ACCOUNT = "d-oidc-sources.knative.dev-sinkbinding"


class Issuer:
    """Gives tokens, unless it is away."""

    def __init__(self) -> None:
        self.asked: list[WantedToken] = []
        self.lasts = 3600.0
        self.away = False

    async def __call__(self, wanted: WantedToken) -> Issued:
        self.asked.append(wanted)
        if self.away:
            raise NoToken("the API is away")
        expires = time.time() + self.lasts
        claims = {"aud": [wanted.audience], "exp": expires, "sub": wanted.account, "n": len(self.asked)}
        return Issued(jwt.encode(claims, "x" * 32, algorithm="HS256"), expires)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    issuer = Issuer()

    async def ask(self: TokenRequests, wanted: WantedToken) -> Issued:
        return await issuer(wanted)

    monkeypatch.setattr(TokenRequests, "__call__", ask)
    return issuer


def switch(plane: ControlPlane, oidc: str) -> None:
    metadata = {"name": "config-features", "namespace": "knative-eventing"}
    plane.api.apply(CONFIG_MAP, {"metadata": metadata, "data": {"authentication-oidc": oidc}})


def deploy(plane: ControlPlane) -> None:
    spec: Obj = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    plane.api.apply(DEPLOYMENT, {"metadata": {"name": "d", "namespace": "ns"}, "spec": spec})


def bind(plane: ControlPlane, sink: Obj = SINK) -> None:
    metadata = {"name": "d", "namespace": "ns"}
    subject = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    plane.api.apply(SINK_BINDING, {"metadata": metadata, "spec": {"sink": sink, "subject": subject}})


def status(plane: ControlPlane, kind: Kind = SINK_BINDING) -> Obj:
    return dict((plane.api.get(kind, "ns", "d") or {}).get("status") or {})


def condition(plane: ControlPlane) -> tuple[str | None, str | None, str | None]:
    found = plane.condition(SINK_BINDING, "d", "OIDCTokenSecretCreated")
    return found.get("status"), found.get("reason"), found.get("message")


def token(plane: ControlPlane) -> str:
    secret = plane.api.get(SECRET, "ns", NAME)
    return "" if secret is None else base64.b64decode(secret["data"]["token"]).decode()


def mounts(plane: ControlPlane, name: str = "d") -> dict[str, str]:
    """The Secrets that the Deployment's container sees, by path."""
    pod = (plane.api.get(DEPLOYMENT, "ns", name) or {})["spec"]["template"]["spec"]
    paths = {one["name"]: one["mountPath"] for one in pod["containers"][0].get("volumeMounts", [])}
    return {
        paths[one["name"]]: source["secret"]["name"]
        for one in pod.get("volumes", [])
        for source in one["projected"]["sources"]
        if "secret" in source
    }


@pytest.fixture
async def bound(plane: ControlPlane, issuer: Issuer) -> ControlPlane:
    """A Deployment with a SinkBinding, and OIDC."""
    switch(plane, "enabled")
    deploy(plane)
    bind(plane)
    await plane.until(lambda: plane.ready(SINK_BINDING, "d") and mounts(plane))
    return plane


async def test_the_subject_mounts_a_token_for_the_sink(bound: ControlPlane, issuer: Issuer) -> None:
    assert issuer.asked == [WantedToken("ns", ACCOUNT, "sink")]
    assert 3500 < remaining(token(bound), "sink", time.time()) <= 3600
    assert mounts(bound) == {"/oidc": NAME}
    said = status(bound)
    assert (said["oidcTokenSecretName"], said["auth"]) == (NAME, {"serviceAccountName": ACCOUNT})
    owner = (bound.api.get(SECRET, "ns", NAME) or {})["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("SinkBinding", "d", True)


async def test_a_token_is_renewed_before_it_ends_and_for_another_audience(bound: ControlPlane, issuer: Issuer) -> None:
    first = token(bound)
    bound.context.tracker.resync()
    await bound.settled()
    assert (token(bound), len(issuer.asked)) == (first, 1)
    issuer.lasts = 500
    bind(bound, {**SINK, "audience": "another"})
    await bound.until(lambda: remaining(token(bound), "another", time.time()))
    short, issuer.lasts = token(bound), 3600
    bound.context.tracker.resync()
    await bound.until(lambda: remaining(token(bound), "another", time.time()) > 3000)
    assert token(bound) != short
    assert mounts(bound) == {"/oidc": NAME}


@pytest.mark.parametrize("without", ["oidc", "audience"])
async def test_where_no_token_is_needed_any_more_it_is_taken_away(bound: ControlPlane, without: str) -> None:
    if without == "oidc":
        switch(bound, "disabled")
    else:
        bind(bound, {"uri": "https://sink"})
    await bound.until(lambda: not mounts(bound) and "oidcTokenSecretName" not in status(bound))
    assert bound.api.get(SECRET, "ns", NAME) is None
    assert bound.ready(SINK_BINDING, "d")
    expected = "authentication-oidc feature disabled" if without == "oidc" else "Sink has no audience defined"
    assert condition(bound)[:2] == ("True", expected)


async def test_a_token_that_cannot_be_had_is_told_and_the_pods_keep_what_they_have(
    bound: ControlPlane, issuer: Issuer
) -> None:
    held, issuer.away = token(bound), True
    bind(bound, {**SINK, "audience": "another"})
    await bound.until(lambda: condition(bound)[0] == "False")
    assert condition(bound)[2] == "the API is away"
    assert (token(bound), mounts(bound), bound.ready(SINK_BINDING, "d")) == (held, {"/oidc": NAME}, False)
    issuer.away = False
    bound.context.tracker.resync()
    await bound.until(lambda: bound.ready(SINK_BINDING, "d"))


async def test_a_missing_right_is_told(plane: ControlPlane, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    read = plane.api.read

    async def forbidden(kind: Kind, key: Key) -> Any:
        if kind == SECRET:
            raise refuse(403, "secrets is forbidden")
        return await read(kind, key)

    monkeypatch.setattr(plane.api, "read", forbidden)
    switch(plane, "enabled")
    deploy(plane)
    bind(plane)
    await plane.until(lambda: condition(plane)[0] == "False")
    assert "secrets is forbidden" in str(condition(plane)[2])
    assert mounts(plane) == {}


async def test_a_secret_of_somebody_else_is_left_alone(plane: ControlPlane, issuer: Issuer) -> None:
    switch(plane, "enabled")
    plane.api.apply(SECRET, {"metadata": {"name": NAME, "namespace": "ns"}, "data": {"token": "eA=="}})
    deploy(plane)
    bind(plane)
    await plane.until(lambda: condition(plane)[0] == "False")
    assert "not owned by SinkBinding d" in str(condition(plane)[2])
    assert (token(plane), issuer.asked) == ("x", [])


async def test_a_container_source_sends_as_its_sinkbinding(plane: ControlPlane, issuer: Issuer) -> None:
    switch(plane, "enabled")
    spec = {"sink": SINK, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    plane.api.apply(CONTAINER_SOURCE, {"metadata": {"name": "d", "namespace": "ns"}, "spec": spec})
    await plane.until(lambda: plane.api.get(DEPLOYMENT, "ns", "d-deployment"))
    await plane.until(lambda: mounts(plane, "d-deployment") == {"/oidc": "d-sinkbinding-oidc-token"})
    await plane.until(lambda: "auth" in status(plane, CONTAINER_SOURCE))
    account = status(plane, CONTAINER_SOURCE)["auth"]["serviceAccountName"]
    assert issuer.asked == [WantedToken("ns", account, "sink")]


@pytest.mark.parametrize("said", ["", "no token", jwt.encode({"aud": "sink"}, "x" * 32, algorithm="HS256")])
def test_what_is_no_token_is_not_good_for_a_moment(said: str) -> None:
    assert remaining(said, "sink", 0) == 0
