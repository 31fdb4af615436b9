"""Trust bundles: ConfigMaps of the system namespace whose authorities the data plane believes destinations by."""

from __future__ import annotations

from penstock.contract.routes import TrustBundle
from penstock.kube.kinds import CONFIG_MAP, EVENT, Key
from penstock.resources.trust_bundles import bundle_of
from tests.certificate_files import authority
from tests.unit.controllers.memory_plane import ControlPlane

FIRST, SECOND = (authority(name).certificate.decode() for name in ("first", "second"))
LABELS = {"networking.knative.dev/trust-bundle": "true"}


def put(
    plane: ControlPlane, name: str, data: dict[str, str], namespace: str = "knative-eventing", **labels: str
) -> None:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    plane.api.apply(CONFIG_MAP, {"metadata": metadata, "data": data})


def told(plane: ControlPlane) -> dict[str, str]:
    records = plane.records().values()
    return {one.name: one.certificates for one in records if isinstance(one, TrustBundle)}


async def test_bundles_come_change_and_go(plane: ControlPlane) -> None:
    put(plane, "bundle", {"a.pem": FIRST}, **LABELS)
    await plane.until(lambda: told(plane) == {"bundle": FIRST})
    put(plane, "bundle", {"b.pem": f"# of our own\n{SECOND}", "a.pem": FIRST}, **LABELS)
    await plane.until(lambda: told(plane) == {"bundle": FIRST + SECOND})
    put(plane, "bundle", {"a.pem": FIRST}, **{"networking.knative.dev/trust-bundle": "false"})
    await plane.until(lambda: told(plane) == {})
    put(plane, "bundle", {"a.pem": FIRST}, **LABELS)
    await plane.until(lambda: told(plane) == {"bundle": FIRST})
    plane.api.remove(CONFIG_MAP, Key("knative-eventing", "bundle"))
    await plane.until(lambda: told(plane) == {})


async def test_nobody_elses_counts(plane: ControlPlane) -> None:
    put(plane, "theirs", {"a.pem": SECOND}, namespace="ns", **LABELS)
    put(plane, "plain", {"a.pem": SECOND})
    put(plane, "ours", {"a.pem": FIRST}, **LABELS)
    await plane.until(lambda: told(plane))
    await plane.settled()
    assert told(plane) == {"ours": FIRST}


async def test_what_is_no_certificate_is_left_out_and_told(plane: ControlPlane) -> None:
    broken = FIRST.replace(FIRST.splitlines()[2], "nonsense")
    put(plane, "bundle", {"good": SECOND, "bad": broken + SECOND, "empty": "nothing"}, **LABELS)
    await plane.until(lambda: told(plane) == {"bundle": SECOND + SECOND})
    await plane.until(lambda: [one["reason"] for one in plane.api.all(EVENT).values()] == ["TrustBundleMalformed"])
    (event,) = plane.api.all(EVENT).values()
    assert "'bad', 'empty'" in event["message"]
    assert event["involvedObject"]["name"] == "bundle"


def test_keys_of_a_bundle_are_taken_in_order() -> None:
    assert bundle_of({"b": SECOND, "a": FIRST}) == (FIRST + SECOND, [])
    assert bundle_of({}) == ("", [])
