"""Names of objects as command arguments, `trigger/greetings` or `greetings`: parsing, lookup and shell completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.kube.kinds import Obj
    from penstock.operations.cluster_api import ClusterApi, Resource

WORDS = {
    "trigger": "trigger",
    "triggers": "trigger",
    "subscription": "subscription",
    "subscriptions": "subscription",
    "sub": "subscription",
    "broker": "broker",
    "brokers": "broker",
    "channel": "channel",
    "channels": "channel",
    "ch": "channel",
    "inmemorychannel": "inmemorychannel",
    "imc": "inmemorychannel",
}


def split(text: str, default: str) -> tuple[str, str]:
    """Kind and name of `kind/name`, or of a name alone. Raises UserError for an unknown kind."""
    word, slash, name = text.partition("/")
    if not slash:
        return default, word
    kind = WORDS.get(word.lower())
    if kind is None or not name:
        raise UserError(f"Invalid name {text}.", f"Write it as {default}/NAME.", exit_code=2)
    return kind, name


def resource_named(kind: str) -> Resource:
    """The resource of a kind."""
    from penstock.operations import cluster_api

    resources = {
        "trigger": cluster_api.TRIGGERS,
        "subscription": cluster_api.SUBSCRIPTIONS,
        "broker": cluster_api.BROKERS,
        "channel": cluster_api.CHANNELS,
        "inmemorychannel": cluster_api.IN_MEMORY_CHANNELS,
    }
    return resources[kind]


def look_up(api: ClusterApi, text: str, namespace: str, kinds: Sequence[str]) -> tuple[Resource, Obj]:
    """The object of that name, of one of these kinds; a name without a kind is of the first. Raises UserError."""
    kind, name = split(text, kinds[0])
    if kind not in kinds:
        raise UserError(f"{text} is not a {' or '.join(kinds)}.", exit_code=2)
    resource = resource_named(kind)
    return resource, api.get(resource, namespace, name)


def completion_of(*kinds: str) -> Callable[[str], list[str]]:
    """Completes names of objects of these kinds; for the first kind, also without the kind."""

    def complete(incomplete: str) -> list[str]:
        from penstock.operations.installation import find

        try:
            with find().api() as api:
                found = {kind: _names(api, resource_named(kind)) for kind in kinds}
        except UserError:
            return []
        words = [f"{kind}/{name}" for kind, names in found.items() for name in names]
        return [word for word in [*found[kinds[0]], *words] if word.startswith(incomplete)]

    return complete


def _names(api: ClusterApi, resource: Resource) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in api.all(resource, api.namespace))
