"""Copies of trust bundles: what they hold, and whose they are."""

from __future__ import annotations

from typing import Any

from penstock.resources.trust_bundles import (
    MOST_BYTES,
    brought_up_to_date,
    combined,
    copies_of,
    is_bundle,
    is_copy,
    is_owned_by,
)

Obj = dict[str, Any]

LABELS = {"networking.knative.dev/trust-bundle": "true"}
BLOCK = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def bundle(name: str = "ours", **content: Any) -> Obj:
    return {"metadata": {"name": name, "labels": {**LABELS, "team": "red"}, "annotations": {"a": "b"}}, **content}


def binding(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}}


def test_a_namespace_gets_each_bundle_and_all_certificates_in_one_file() -> None:
    every, ours = copies_of([bundle(data={"ca.pem": BLOCK}, binaryData={"raw": "AA=="})], BLOCK, "ns")
    assert ours == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ourskne-bundle", "namespace": "ns", "labels": LABELS},
        "data": {"ca.pem": BLOCK},
        "binaryData": {"raw": "AA=="},
    }
    assert every["metadata"]["name"] == "kn-combined-kne-bundlekne-bundle"
    assert every["data"] == {"kn-combined-kne-bundle.pem": BLOCK}


def test_without_certificates_there_is_no_file_of_all() -> None:
    assert copies_of([], "", "ns") == []
    (only,) = copies_of([bundle(data={"a": "nonsense"})], "", "ns")
    assert only["data"] == {"a": "nonsense"}


def test_a_long_name_is_shortened_to_that_of_a_label() -> None:
    (copy,) = copies_of([bundle("b" * 80, data={"a": "x"})], "", "ns")
    assert len(copy["metadata"]["name"]) <= 63


def test_certificates_beyond_the_room_of_a_configmap_are_left_out_whole() -> None:
    fitting = combined(BLOCK * (MOST_BYTES // len(BLOCK) + 5))
    assert MOST_BYTES - len(BLOCK) < len(fitting) <= MOST_BYTES
    assert fitting == BLOCK * (len(fitting) // len(BLOCK))
    assert combined("x" * (MOST_BYTES + 1)) == ""


def test_every_binding_owns_the_copy_and_nobody_writes_what_is_as_it_should_be() -> None:
    (wanted,) = copies_of([bundle(data={"a": "x"})], "", "ns")
    first = brought_up_to_date(None, wanted, binding("one"))
    assert is_copy(first)
    assert is_owned_by(first, binding("one"))
    assert brought_up_to_date(first, wanted, binding("one")) is first
    second = brought_up_to_date(first, wanted, binding("two"))
    assert [one["name"] for one in second["metadata"]["ownerReferences"]] == ["one", "two"]
    assert all(not one.get("controller") for one in second["metadata"]["ownerReferences"])


def test_changed_content_replaces_what_was_there() -> None:
    (before,) = copies_of([bundle(data={"a": "x"}, binaryData={"raw": "AA=="})], "", "ns")
    (after,) = copies_of([bundle(data={"b": "y"})], "", "ns")
    held = brought_up_to_date(None, before, binding("one"))
    held["metadata"]["resourceVersion"] = "7"
    changed = brought_up_to_date(held, after, binding("one"))
    assert changed["data"] == {"b": "y"}
    assert "binaryData" not in changed
    assert changed["metadata"] == held["metadata"]


def test_a_bundle_of_a_user_is_no_copy() -> None:
    theirs = bundle(data={"a": "x"})
    assert is_bundle(theirs)
    assert not is_copy(theirs)
    theirs["metadata"]["ownerReferences"] = [{"apiVersion": "trust.cert-manager.io/v1", "kind": "Bundle", "uid": "u"}]
    assert not is_copy(theirs)
    assert not is_bundle({"metadata": {"labels": {"networking.knative.dev/trust-bundle": "false"}}})
