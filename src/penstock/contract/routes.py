"""The records of `penstock.routes`: what the control plane publishes for the data plane.

Each record is JSON under a key `<kind>/<id>`; a null value deletes it. Readers ignore fields they do not know and
give defaults to fields they miss, so either side may be newer. A change of any size is published as its records
followed by one `Version` under the key `version`, which completes it; nothing counts before its `Version` is read.

| key | value |
|---|---|
| `target/<uid>` | a Broker or Channel that accepts events |
| `route/<uid>` | a Trigger, a Subscription or a Replay |
| `name/<host>` | the addresses of a DNS name of the embedded control plane |
| `trust/<name>` | certificate authorities that are trusted for every destination over TLS |
| `identity` | the API whose objects the records were made from |
| `version` | completes a change |
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from penstock.contract.records import Unreadable, read_json
from penstock.runtime.hosts import without_userinfo

VERSION_KEY = "version"
IDENTITY_KEY = "identity"

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A version, a generation, an offset: what is beyond this was never counted by penstock."""


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A resolved destination."""

    url: str
    """As written, perhaps with user and password: for connecting only, never shown."""
    ca_certs: str | None = None
    """PEM bundle that the server's certificate is verified with, besides the system's."""
    audience: str | None = None

    @property
    def shown(self) -> str:
        """The URL for records, events, spans, statuses and logs."""
        return without_userinfo(self.url)


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A delivery spec with durations in seconds and the dead letter sink resolved."""

    retry: int = 0
    backoff_policy: Literal["linear", "exponential"] | None = None
    backoff_delay: float | None = None
    backoff_max: float | None = None
    timeout: float | None = None
    retry_after_max: float | None = None
    format: Literal["json", "binary"] | None = None
    dead_letter: Endpoint | None = None


AuthorizationMode = Literal["allow-all", "deny-all", "allow-same-namespace"]


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """An EventPolicy that applies to a target: which senders may send which events."""

    name: str
    subjects: tuple[str, ...] = ()
    """The senders; a trailing `*` is a wildcard. Empty: none, for example while the policy is not resolved."""
    filters: list[dict[str, Any]] = []
    """Which of their events, in the dialects of Triggers; empty: all."""


class ApiKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """An API key of senders; only its digest is kept."""

    name: str
    digest: str
    """SHA-256 in hexadecimal digits."""
    expires: float | None = None
    """Unix time from which on it is invalid."""
    events: float | None = None
    """Events per second that each ingress process accepts with it; None: no limit."""
    bytes: float | None = None
    """Bytes per second, likewise."""


class Access(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who may send to a target."""

    audience: str = ""
    """The audience that a token must have; empty: tokens are not accepted."""
    policies: tuple[Policy, ...] = ()
    default_mode: AuthorizationMode = "allow-same-namespace"
    """Who may send where no policy applies."""
    keys: tuple[ApiKey, ...] = ()


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Broker or Channel that accepts events."""

    uid: str
    kind: Literal["Broker", "Channel"]
    """`Channel` for every kind of channel; the kind decides about TTL and arrival time, not the storage."""
    namespace: str
    name: str
    paths: tuple[str, ...] = ()
    """Absolute paths it is reached under, such as `/default/orders`."""
    hosts: tuple[str, ...] = ()
    """Host names (without port) under which `/` reaches it."""
    tells_types: bool = False
    """Whether the ingress reports the types of the events that it accepts."""
    access: Access | None = None
    """Who may send to it; None: all clients of the ingress."""
    transport: Literal["disabled", "permissive", "strict"] = "disabled"
    """Over what it takes events: HTTP, both, or HTTPS (the feature `transport-encryption`)."""


class SecretVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Secret of the route's namespace. Its data is never in the topic, but read from the Kubernetes API."""

    name: str
    version: str = ""
    """Its `resourceVersion`: when it changes, the Secret is read again. Empty: it is unusable, and nothing is sent."""


class Replay(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which past events a replaying route delivers. The router is not involved."""

    role: Literal["Trigger", "Subscription"]
    """How it delivers: where replies go, and what subscribers see."""
    since: float = 0.0
    """Unix time of the oldest event; 0: whatever is kept."""
    until: float | None = None
    """Unix time before which every event was accepted; None: all that were accepted when it was first published."""
    end: tuple[Count, ...] = ()
    """Offset of each partition of `penstock.events` before which it ends; set when it is first published."""
    filters: list[dict[str, Any]] = []
    """What an event must match besides the filters of the route."""
    ids: tuple[str, ...] = ()
    """Only events with these ids, where there are any."""
    given_up_by: str | None = None
    """uid of a route: only events that it dropped or sent to its dead letter sink between `since` and `until`."""
    reason: str = ""
    """Only those of them whose reason contains this."""
    rate: float | None = None
    """Events per second over all partitions; None: no limit."""
    dry_run: bool = False
    """Whether events are only counted."""
    past_of: str | None = None
    """uid of the route that asked for past events when it was created; None on a Replay that is an object."""


class FormerMatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a route matched before it was changed."""

    target: str
    attributes: dict[str, str] = {}
    filters: list[dict[str, Any]] = []
    until: tuple[Count, ...] = ()
    """First offset of each partition of `penstock.events` that it no longer counts for."""


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Trigger, Subscription or Replay: what it matches, where it delivers, and from where on."""

    uid: str
    kind: Literal["Trigger", "Subscription", "Replay"]
    namespace: str
    name: str
    target: str
    """uid of the target whose events it gets."""
    generation: Count = 0
    """`metadata.generation` of the object this was made from."""
    attributes: dict[str, str] = {}
    """`spec.filter.attributes`; counts only where `filters` is empty."""
    filters: list[dict[str, Any]] = []
    """`spec.filters` as written: exact, prefix, suffix, all, any, not, cesql."""
    subscriber: Endpoint | None = None
    """None on a Subscription that has only a reply: the event is sent there directly."""
    reply: Endpoint | None = None
    """Where a Subscription's replies go. A Trigger's go back into its Broker."""
    delivery: Delivery = Delivery()
    start: tuple[Count, ...] = ()
    """First offset of each partition of `penstock.events` that counts for this route; empty: from the beginning."""
    asked_from: float | None = None
    """Unix time of the oldest event it asks for, of those from before it was published; 0: all that are kept."""
    former: tuple[FormerMatch, ...] = ()
    """What it matched before, the oldest first. The router does not use it, but readers that match old events again."""
    replay: Replay | None = None
    """Set on a Replay, and on the route for the past events that a Trigger or Subscription asked for."""
    max_in_flight: int | None = None
    ordering: Literal["unordered", "key"] = "unordered"
    paused: bool = False
    account: str = ""
    """ServiceAccount (of its namespace) whose tokens are sent to addresses with an audience."""
    signing: SecretVersion | None = None
    """The key that signs everything it sends; None: nothing is signed."""
    client_certificate: SecretVersion | None = None
    """The certificate for destinations that require one."""

    @property
    def match(self) -> tuple[str, dict[str, str], list[dict[str, Any]]]:
        """What decides which events it gets."""
        return self.target, self.attributes, self.filters

    def since(self, start: tuple[int, ...]) -> Route:
        """The same route with another start."""
        return msgspec.structs.replace(self, start=start)

    @property
    def role(self) -> Literal["Trigger", "Subscription"]:
        """How it delivers: as a Trigger or as a Subscription does."""
        return self.replay.role if self.replay is not None else "Trigger" if self.kind == "Trigger" else "Subscription"


def past_uid(uid: str) -> str:
    """uid of the route that delivers the past events of another route."""
    return f"{uid}-past"


class ServiceName(msgspec.Struct, frozen=True, omit_defaults=True):
    """The addresses of a DNS name of the embedded control plane, by port."""

    host: str
    """Full name, such as `sink.default.svc.cluster.local`."""
    ports: dict[str, tuple[str, ...]] = {}
    """Port of the name (in decimal) to the `host:port` addresses behind it. An empty list: none is ready."""


class TrustBundle(msgspec.Struct, frozen=True, omit_defaults=True):
    """Certificate authorities trusted for every destination over TLS, besides the system's and its own."""

    name: str
    certificates: str
    """PEM."""


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The API whose objects the routes were made from. Another one's control plane would remove them all."""

    api: str
    """uid of its namespace `kube-system`, which lives as long as the cluster does."""


class Version(msgspec.Struct, frozen=True, omit_defaults=True):
    """Completes a change. Versions only rise."""

    version: Count
    targets: Count = 0
    routes: Count = 0
    names: Count = 0
    """How many records of each kind are in force, so that a reader can detect that some are missing."""


Record = Target | Route | ServiceName | TrustBundle | Identity | Version

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "target": msgspec.json.Decoder(Target),
    "route": msgspec.json.Decoder(Route),
    "name": msgspec.json.Decoder(ServiceName),
    "trust": msgspec.json.Decoder(TrustBundle),
    IDENTITY_KEY: msgspec.json.Decoder(Identity),
}
_VERSION_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Version)


def key_of(record: Record) -> str:
    """The record's key in the topic."""
    match record:
        case Target():
            return f"target/{record.uid}"
        case Route():
            return f"route/{record.uid}"
        case ServiceName():
            return f"name/{record.host}"
        case TrustBundle():
            return f"trust/{record.name}"
        case Identity():
            return IDENTITY_KEY
        case Version():
            return VERSION_KEY


def route_of_key(key: str) -> str | None:
    """uid of the route whose record has this key; None where it is not that of a route."""
    kind, _, uid = key.partition("/")
    return uid if kind == "route" else None


def encode(record: Record) -> bytes:
    """The record's value in the topic."""
    return msgspec.json.encode(record)


def decode(key: str, value: bytes) -> Record | None:
    """The record behind a key; None for a kind that this reader does not know. Raises Unreadable."""
    decoder = _VERSION_DECODER if key == VERSION_KEY else _DECODERS.get(key.partition("/")[0])
    if decoder is None:
        return None
    record: Record = read_json(value, decoder)
    if key_of(record) != key:
        raise Unreadable(f"it is the record {key_of(record)}")
    return record
