"""What spans say about an event and where it goes, in the words of the Broker specification and of Knative."""

from __future__ import annotations

from penstock.events.event import CloudEvent

_EVENT_ATTRIBUTES = ("id", "source", "specversion", "type", "subject")


def destination(kind: str, namespace: str, name: str) -> str:
    """`broker:name.namespace`, `trigger:name.namespace` and so on."""
    return f"{kind.lower()}:{name}.{namespace}"


def messaging(event: CloudEvent, place: str, operation: str = "send", protocol: str = "http") -> dict[str, str]:
    """The attributes of every span: `place` is a `destination`."""
    attributes = {
        "messaging.system": "knative",
        "messaging.destination": place,
        "messaging.destination.name": place,
        "messaging.protocol": protocol,
        "messaging.message_id": event.id,
        "messaging.operation.name": operation,
    }
    for name in _EVENT_ATTRIBUTES:
        if (value := event.attributes.get(name)) is not None:
            attributes["cloudevents." + name] = value
    return attributes
