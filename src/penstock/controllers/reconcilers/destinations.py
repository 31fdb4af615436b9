"""Addressable resolution: from a destination (`ref`, `uri`) to an address.

A reference is resolved to the address in the status of the object, or for a v1 Service to its DNS name; a relative URI
beside it is resolved against that. Pure: the caller looks up the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from penstock.contract.names import service_host
from penstock.kube.kinds import Kind
from penstock.resources.destinations import KReference, Resolution, ResolvedAddress, Unresolved

Lookup = Callable[[KReference], Mapping[str, Any] | Unresolved]
"""The object as stored, or why there is none."""


def resolve_optional(destination: Mapping[str, Any] | None, namespace: str, lookup: Lookup) -> Resolution:
    """The address of the destination; None where none is given."""
    return resolve(destination, namespace, lookup) if destination and any(destination.values()) else None


def resolve(destination: Mapping[str, Any], namespace: str, lookup: Lookup) -> ResolvedAddress | Unresolved:
    """The address of the destination, or why it cannot be resolved."""
    certificates, audience = destination.get("CACerts") or None, destination.get("audience") or None
    uri = destination.get("uri")
    reference = destination.get("ref")
    if not reference:
        return _absolute(uri, certificates, audience)
    base = _address_of(KReference.read(reference, namespace), certificates, lookup)
    if isinstance(base, Unresolved):
        return base
    try:
        url = _relative(base.url, uri) if uri else base.url
    except ValueError as error:
        return Unresolved(f"URI {json_quoted(str(uri))} cannot be resolved against {base.url}: {error}")
    joined = "\n".join(part for part in (base.ca_certs, certificates) if part) if base.ca_certs else certificates
    return ResolvedAddress(url, joined, audience or base.audience)


def _absolute(uri: object, certificates: str | None, audience: str | None) -> ResolvedAddress | Unresolved:
    if not uri:
        return Unresolved("destination missing Ref and URI, expected at least one")
    try:
        parts = urlsplit(str(uri))
    except ValueError as error:
        return Unresolved(f"URI {json_quoted(str(uri))} cannot be read: {error}")
    if not parts.scheme or not parts.netloc:
        return Unresolved(f"URI is not absolute (both scheme and host should be non-empty): {json_quoted(str(uri))}")
    return ResolvedAddress(str(uri), certificates, audience)


def _relative(base: str, uri: str) -> str:
    # urljoin drops the last segment of a base without a trailing slash only if the base has a path, like a browser.
    return urljoin(base if urlsplit(base).path else f"{base}/", uri)


def _address_of(reference: KReference, certificates: str | None, lookup: Lookup) -> ResolvedAddress | Unresolved:
    found = lookup(reference)
    if isinstance(found, Unresolved):
        return Unresolved(f"failed to get object {reference.namespace}/{reference.name}: {found.message}")
    if Kind(reference.api_version, reference.kind) == ("v1", "Service"):
        scheme = "https" if certificates else "http"
        return ResolvedAddress(f"{scheme}://{service_host(reference.name, reference.namespace)}")
    address = _chosen(reference, found.get("status") or {})
    if isinstance(address, Unresolved):
        return address
    if not address.get("url"):
        return Unresolved(f"URL missing in address of {_described(reference)}")
    return ResolvedAddress(str(address["url"]), address.get("CACerts") or None, address.get("audience") or None)


def _chosen(reference: KReference, status: Mapping[str, Any]) -> Mapping[str, Any] | Unresolved:
    addresses = status.get("addresses") or []
    if reference.address:
        for address in addresses:
            if address.get("name") == reference.address:
                return dict(address)
        return Unresolved(f'address with name "{reference.address}" not found for {_described(reference)}')
    address = addresses[0] if addresses else status.get("address")
    return dict(address) if address else Unresolved(f"address not set for {_described(reference)}")


def _described(reference: KReference) -> str:
    return (
        f"Kind = {reference.kind}, Namespace = {reference.namespace}, Name = {reference.name}, "
        f"APIVersion = {reference.api_version}, Group = , Address = {reference.address or ''}"
    )


def json_quoted(text: str) -> str:
    """The text in double quotes."""
    return '"' + text.replace('"', '\\"') + '"'
