"""Secrets that routes need: the data plane hears of names and versions, and people of what is missing."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from penstock.contract.routes import Route, SecretVersion, encode
from penstock.kube.kinds import BROKER, CHANNEL, REPLAY, SECRET, SUBSCRIPTION, TRIGGER, Key, Kind, Obj
from tests.certificate_files import authority, client_of
from tests.unit.controllers.memory_plane import ControlPlane

GOOD = b"whsec_" + base64.b64encode(b"s" * 32)
ANNOTATED = {"penstock.dev/sign-with": "keys"}
SUBSCRIBER = {"uri": "http://subscriber.example/"}


def named(name: str, annotations: dict[str, str] | None = None, **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns", "annotations": annotations or {}}, **body}


def put_secret(plane: ControlPlane, *values: bytes) -> str:
    """Stores the Secret with these values; its version."""
    data = {f"key-{number}": base64.b64encode(value).decode() for number, value in enumerate(values)}
    stored = plane.api.apply(SECRET, named("keys", data=data, type="Opaque"))
    return str(stored["metadata"]["resourceVersion"])


def make(plane: ControlPlane, kind: Kind, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """A Trigger or Subscription `x`, which signs unless told otherwise, with what it needs."""
    annotations = annotations or ANNOTATED
    if kind == TRIGGER:
        plane.api.apply(BROKER, named("b", spec={}))
        plane.api.apply(TRIGGER, named("x", annotations, spec={"broker": "b", "subscriber": SUBSCRIBER, **spec}))
        return
    plane.api.apply(CHANNEL, named("c", spec={}))
    channel = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind, "name": "c"}
    plane.api.apply(SUBSCRIPTION, named("x", annotations, spec={"channel": channel, "subscriber": SUBSCRIBER, **spec}))


def route(plane: ControlPlane, kind: str | None = None) -> Route | None:
    found = [one for one in plane.records().values() if isinstance(one, Route) and kind in (None, one.kind)]
    return found[0] if found else None


def signing(plane: ControlPlane, kind: str | None = None) -> SecretVersion | None:
    found = route(plane, kind)
    return None if found is None else found.signing


BOTH = pytest.mark.parametrize("kind", [TRIGGER, SUBSCRIPTION])


@BOTH
async def test_the_data_plane_is_told_name_and_version_and_never_the_secret(plane: ControlPlane, kind: Kind) -> None:
    version = put_secret(plane, GOOD)
    make(plane, kind)
    await plane.until(lambda: plane.ready(kind, "x"))
    assert signing(plane) == SecretVersion("keys", version)
    assert plane.condition(kind, "x", "SecretsResolved")["status"] == "True"
    for value in plane.records().values():
        for shown in (GOOD, GOOD.removeprefix(b"whsec_"), base64.b64encode(GOOD)):
            assert shown not in encode(value)
    rotated = put_secret(plane, GOOD, b"whsec_" + base64.b64encode(b"t" * 32))
    await plane.until(lambda: signing(plane) == SecretVersion("keys", rotated))


@BOTH
async def test_a_missing_secret_is_a_condition_and_the_route_waits_for_it(plane: ControlPlane, kind: Kind) -> None:
    make(plane, kind)
    await plane.until(lambda: signing(plane) == SecretVersion("keys"))
    await plane.until(lambda: plane.condition(kind, "x").get("reason") == "SigningSecretMissing")
    told = plane.condition(kind, "x", "SecretsResolved")["message"]
    assert told.endswith(': the Secret "keys" does not exist. Create it in the namespace ns, or correct the name.')
    put_secret(plane, b"hunter2")
    await plane.until(lambda: plane.condition(kind, "x").get("reason") == "SigningSecretMalformed")
    assert "hunter2" not in str(plane.api.get(kind, "ns", "x"))
    assert signing(plane) == SecretVersion("keys")
    version = put_secret(plane, GOOD)
    await plane.until(lambda: plane.ready(kind, "x") and signing(plane) == SecretVersion("keys", version))
    plane.api.remove(SECRET, Key("ns", "keys"))
    await plane.until(lambda: signing(plane) == SecretVersion("keys"))


@BOTH
async def test_what_is_signed_has_the_whole_event_in_its_body_unless_binary_is_asked_for(
    plane: ControlPlane, kind: Kind
) -> None:
    put_secret(plane, GOOD)
    make(plane, kind)
    await plane.until(lambda: (found := route(plane)) and found.delivery.format == "json")
    make(plane, kind, delivery={"format": "binary"})
    await plane.until(lambda: (found := route(plane)) and found.delivery.format == "binary")


@BOTH
async def test_a_client_certificate_is_told_by_name_and_version_for_subscribers_over_https(
    plane: ControlPlane, kind: Kind
) -> None:
    pair = client_of(authority("clients"), "till")
    data = {"tls.crt": base64.b64encode(pair.certificate).decode(), "tls.key": base64.b64encode(pair.key).decode()}
    stored = plane.api.apply(SECRET, named("tls", data=data, type="kubernetes.io/tls"))
    version = stored["metadata"]["resourceVersion"]
    annotations = {"penstock.dev/client-certificate": "tls"}
    make(plane, kind, annotations=annotations)
    await plane.until(lambda: plane.condition(kind, "x").get("reason") == "ClientCertificateUnused")
    found = await plane.until(lambda: route(plane))
    assert (found.client_certificate, found.delivery.format) == (SecretVersion("tls"), None)
    make(plane, kind, annotations=annotations, subscriber={"uri": "https://subscriber.example/"})
    await plane.until(lambda: plane.ready(kind, "x"))
    told = [one for one in plane.records().values() if isinstance(one, Route)]
    assert [one.client_certificate for one in told] == [SecretVersion("tls", version)]
    assert pair.key.splitlines()[1] not in b"".join(encode(one) for one in told)


async def test_without_the_annotation_nobody_looks_for_secrets(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b", spec={}))
    plane.api.apply(TRIGGER, named("x", spec={"broker": "b", "subscriber": SUBSCRIBER}))
    await plane.until(lambda: plane.ready(TRIGGER, "x"))
    assert (signing(plane), plane.condition(TRIGGER, "x", "SecretsResolved")) == (None, {})
    found = route(plane)
    assert found is not None
    assert found.delivery.format is None


async def test_a_replay_signs_as_its_trigger_does_and_follows_the_secret(plane: ControlPlane) -> None:
    version = put_secret(plane, GOOD)
    make(plane, TRIGGER)
    await plane.until(lambda: plane.ready(TRIGGER, "x"))
    target = {"apiVersion": TRIGGER.api_version, "kind": TRIGGER.kind, "name": "x"}
    replay = named("again", spec={"target": target, "from": "earliest"})
    replay["metadata"]["creationTimestamp"] = "2026-11-01T00:00:00Z"
    plane.api.apply(REPLAY, replay)
    await plane.until(lambda: signing(plane, "Replay") == SecretVersion("keys", version))
    rotated = put_secret(plane, GOOD, GOOD)
    await plane.until(lambda: signing(plane, "Replay") == SecretVersion("keys", rotated))


async def test_a_control_plane_that_may_not_look_at_secrets_says_what_to_grant(plane: ControlPlane) -> None:
    plane.api.forbidden.add(SECRET)
    make(plane, TRIGGER)
    await plane.until(lambda: plane.condition(TRIGGER, "x").get("reason") == "SigningSecretMissing")
    assert "cannot list it. Let the control plane list and watch Secrets." in plane.condition(TRIGGER, "x")["message"]
    assert signing(plane) == SecretVersion("keys")
    version = put_secret(plane, GOOD)
    plane.api.forbidden.clear()
    await plane.until(lambda: signing(plane) == SecretVersion("keys", version))
