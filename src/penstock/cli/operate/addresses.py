"""Where a Broker or Channel takes events, as a command on this machine reaches it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.problem import Problem

if TYPE_CHECKING:
    from penstock.kube.kinds import Obj
    from penstock.operations.cluster_api import ClusterApi, Resource
    from penstock.operations.installation import Installation
    from penstock.operations.sending import SendingAddress

INGRESS_VARIABLE = "PENSTOCK_INGRESS"


def target_of(api: ClusterApi, namespace: str, broker: str | None, channel: str | None) -> tuple[Resource, Obj]:
    """The Broker or Channel that is meant; without either the Broker `default`. Raises Problem."""
    from penstock.operations.cluster_api import BROKERS, CHANNELS, IN_MEMORY_CHANNELS

    if broker and channel:
        raise Problem("Give either --broker or --channel.", exit_code=2)
    if channel:
        for resource in (CHANNELS, IN_MEMORY_CHANNELS):
            found = api.read(resource.path(namespace, channel))
            if found is not None:
                return resource, found
        raise Problem(f"There is no Channel {namespace}/{channel}.", _existing(api, CHANNELS, namespace, "--channel"))
    name = broker or "default"
    found = api.read(BROKERS.path(namespace, name))
    if found is None:
        remedy = _existing(api, BROKERS, namespace, "--broker") or f"Make one: penstock create broker {name}"
        raise Problem(f"There is no Broker {namespace}/{name}.", remedy)
    return BROKERS, found


def address_of(installation: Installation, resource: Resource, obj: Obj) -> SendingAddress:
    """Where events are sent to. Raises Problem where that is not known yet."""
    from penstock.operations.sending import address_in

    metadata, address = obj["metadata"], address_in(obj)
    if base := _ingress(installation, address.is_secure):
        folder = "" if resource.kind == "Broker" else "/channels"
        address = replace(address, url=f"{base}{folder}/{metadata['namespace']}/{metadata['name']}")
    if not address.url:
        raise Problem(f"{resource.kind} {metadata['namespace']}/{metadata['name']} has no address yet.", "Is it Ready?")
    return address


def _ingress(installation: Installation, is_secure: bool) -> str:
    """Base URL of the ingress: of a stack of this machine, or as the variable says."""
    if given := os.environ.get(INGRESS_VARIABLE):
        return given.rstrip("/")
    if installation.settings is None:
        return ""
    return installation.settings.tls_ingress_url if is_secure else installation.settings.ingress_url


def _existing(api: ClusterApi, resource: Resource, namespace: str, flag: str) -> str:
    names = sorted(obj["metadata"]["name"] for obj in api.all(resource, namespace))
    return f"There are: {', '.join(f'{flag} {name}' for name in names[:8])}" if names else ""
