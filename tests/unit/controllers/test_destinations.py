"""Addressable resolution (control-plane-spec and eventing-test-spec, Destination Resolution)."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.controllers.reconcilers.destinations import resolve, resolve_optional
from penstock.resources.destinations import KReference, ResolvedAddress, Unresolved

SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "test"}
GADGET = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g"}


def lookup(**status: Any) -> Any:
    def find(_reference: KReference) -> Mapping[str, Any]:
        return {"status": status}

    return find


def missing(reference: KReference) -> Unresolved:
    return Unresolved(f'gadgets.example.com "{reference.name}" not found')


def test_a_uri_leads_where_it_says() -> None:
    assert resolve({"uri": "https://a/b?c", "CACerts": "pem", "audience": "x"}, "ns", missing) == ResolvedAddress(
        "https://a/b?c", "pem", "x"
    )


def test_a_v1_service_resolves_to_its_cluster_local_dns_name() -> None:
    assert resolve({"ref": SERVICE}, "ns", lookup()) == ResolvedAddress("http://test.ns.svc.cluster.local")


def test_a_v1_service_with_certificates_is_reached_over_https() -> None:
    found = resolve({"ref": {**SERVICE, "namespace": "other"}, "CACerts": "pem"}, "ns", lookup())
    assert found == ResolvedAddress("https://test.other.svc.cluster.local", "pem")


@pytest.mark.parametrize(
    ("base", "uri", "url"),
    [
        (None, "/update", "http://test.ns.svc.cluster.local/update"),
        (None, "update", "http://test.ns.svc.cluster.local/update"),
        ("http://b/ns/x", "/update", "http://b/update"),
        ("http://b/ns/x", "y", "http://b/ns/y"),
        ("http://b/ns/x/", "y", "http://b/ns/x/y"),
    ],
)
def test_if_ref_and_uri_are_set_the_uri_is_relative_to_the_ref(base: str | None, uri: str, url: str) -> None:
    ref, status = (SERVICE, {}) if base is None else (GADGET, {"address": {"url": base}})
    assert resolve({"ref": ref, "uri": uri}, "ns", lookup(**status)) == ResolvedAddress(url)


def test_an_addressable_resolves_to_its_status_address_url() -> None:
    address = {"url": "http://g", "CACerts": "pem", "audience": "aud"}
    assert resolve({"ref": GADGET}, "ns", lookup(address=address)) == ResolvedAddress("http://g", "pem", "aud")


def test_the_first_of_addresses_is_preferred() -> None:
    found = lookup(address={"url": "http://old"}, addresses=[{"url": "https://new"}, {"url": "http://old"}])
    assert resolve({"ref": GADGET}, "ns", found) == ResolvedAddress("https://new")


def test_an_address_may_be_chosen_by_name() -> None:
    found = lookup(addresses=[{"name": "https", "url": "https://g"}, {"name": "http", "url": "http://g"}])
    assert resolve({"ref": {**GADGET, "address": "http"}}, "ns", found) == ResolvedAddress("http://g")
    refused = resolve({"ref": {**GADGET, "address": "smtp"}}, "ns", found)
    assert isinstance(refused, Unresolved)
    assert refused.message.startswith('address with name "smtp" not found for Kind = Gadget')


def test_certificates_of_destination_and_addressable_are_both_trusted() -> None:
    found = resolve({"ref": GADGET, "CACerts": "mine"}, "ns", lookup(address={"url": "https://g", "CACerts": "its"}))
    assert found == ResolvedAddress("https://g", "its\nmine")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "address not set for Kind = Gadget"),
        ({"address": {"name": "x"}}, "URL missing in address of Kind = Gadget"),
    ],
)
def test_an_object_without_an_address_is_named(status: dict[str, Any], message: str) -> None:
    refused = resolve({"ref": GADGET}, "ns", lookup(**status))
    assert isinstance(refused, Unresolved)
    assert refused.message.startswith(message)


def test_an_object_that_does_not_exist_is_named() -> None:
    refused = resolve({"ref": GADGET}, "ns", missing)
    assert refused == Unresolved('failed to get object ns/g: gadgets.example.com "g" not found')


@pytest.mark.parametrize("destination", [{"uri": "/relative"}, {"CACerts": "pem"}, {"uri": "http://[x"}])
def test_what_leads_nowhere_is_refused(destination: dict[str, Any]) -> None:
    assert isinstance(resolve(destination, "ns", missing), Unresolved)


@pytest.mark.parametrize(("url", "uri"), [("http://b", "//[x"), ("http://[x", "/y")])
def test_addresses_that_cannot_be_joined_are_told(url: str, uri: str) -> None:
    """Admission takes the one, and the other stands in a status."""
    found = resolve({"ref": GADGET, "uri": uri}, "ns", lookup(address={"url": url}))
    assert isinstance(found, Unresolved)
    assert f'URI "{uri}" cannot be resolved against {url}' in found.message


@pytest.mark.parametrize("destination", [None, {}, {"uri": ""}])
def test_no_destination_is_none(destination: dict[str, Any] | None) -> None:
    assert resolve_optional(destination, "ns", missing) is None
