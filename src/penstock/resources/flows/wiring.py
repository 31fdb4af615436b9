"""The Channels and Subscriptions that a flow is made of, as they are created."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.delivery.options import fill_delivery
from penstock.resources.destinations.destination import fill_destination
from penstock.resources.metadata import ObjectIdentity, controller_reference

SUBSCRIPTION_VERSION, SUBSCRIPTION_KIND = "messaging.knative.dev/v1", "Subscription"


@dataclass(frozen=True)
class Wiring:
    """Makes the parts of one flow: all its Channels are of one kind, all its parts go when it goes."""

    flow: Obj
    template: dict[str, Any]
    """`spec.channelTemplate`."""

    @property
    def channel_version(self) -> str:
        """apiVersion of the Channels."""
        return str(self.template.get("apiVersion") or "")

    @property
    def channel_kind(self) -> str:
        """Kind of the Channels."""
        return str(self.template.get("kind") or "")

    def channel(self, name: str) -> Obj:
        """A Channel."""
        spec = copy.deepcopy(self.template.get("spec") or {})
        return self._part(self.channel_version, self.channel_kind, name, spec)

    def subscription(
        self,
        name: str,
        channel: str,
        subscriber: dict[str, Any],
        reply: dict[str, Any] | None,
        delivery: dict[str, Any] | None = None,
    ) -> Obj:
        """A Subscription to the Channel of that name, as it is stored once admission has filled in its namespaces."""
        reference = {"apiVersion": self.channel_version, "kind": self.channel_kind, "name": channel}
        spec: dict[str, Any] = {"channel": reference, "subscriber": subscriber, "reply": reply, "delivery": delivery}
        spec = copy.deepcopy({name: value for name, value in spec.items() if value is not None})
        namespace = ObjectIdentity.read(self.flow).namespace
        fill_destination(spec.get("subscriber"), namespace)
        fill_destination(spec.get("reply"), namespace)
        fill_delivery(spec.get("delivery"), namespace)
        return self._part(SUBSCRIPTION_VERSION, SUBSCRIPTION_KIND, name, spec)

    def to_channel(self, name: str) -> dict[str, Any]:
        """The Channel of that name as a destination."""
        namespace = ObjectIdentity.read(self.flow).namespace
        reference = {"apiVersion": self.channel_version, "kind": self.channel_kind}
        return {"ref": {**reference, "name": name, "namespace": namespace}}

    def _part(self, api_version: str, kind: str, name: str, spec: dict[str, Any]) -> Obj:
        metadata = {
            "name": name,
            "namespace": ObjectIdentity.read(self.flow).namespace,
            "ownerReferences": [controller_reference(self.flow)],
        }
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def destination_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The destination among other fields of a step."""
    return {name: fields[name] for name in ("ref", "uri", "CACerts", "audience") if fields.get(name) is not None}
