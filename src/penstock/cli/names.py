"""Names of objects as commands take them, `trigger/greetings` or `greetings`, and how a shell completes them."""

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
    """Kind and name of `kind/name`, or of a name alone. Raises UserError for a kind that is not meant here."""
    word, slash, name = text.partition("/")
    if not slash:
        return default, word
    kind = WORDS.get(word.lower())
    if kind is None or not name:
        raise UserError(f"{text} is not understood.", f"Write it as {default}/NAME.", exit_code=2)
    return kind, name


def resource_named(kind: str) -> Resource:
    """The kind behind a word."""
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
    """The object that is meant, of one of these kinds; a name alone is one of the first. Raises UserError."""
    kind, name = split(text, kinds[0])
    if kind not in kinds:
        raise UserError(f"{text}: a {' or a '.join(kinds)} is meant here.", exit_code=2)
    resource = resource_named(kind)
    return resource, api.get(resource, namespace, name)


def completion_of(*kinds: str) -> Callable[[str], list[str]]:
    """Completes names of objects of these kinds; those of the first without the kind as well."""

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
