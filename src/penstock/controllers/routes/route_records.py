"""The records of the snapshot, made from objects, their resolved destinations and their Secrets.

The data plane gets only names and versions of Secrets, never their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from penstock.contract.names import service_host, service_names
from penstock.contract.routes import (
    Access,
    Delivery,
    Endpoint,
    Replay,
    Route,
    SecretVersion,
    ServiceName,
    Target,
    past_uid,
)
from penstock.controllers.tracker import Observer, Tracker
from penstock.kube.kinds import SECRET, Key
from penstock.resources.delivery import DeliveryOptions, RouteOptions
from penstock.resources.destinations import Resolution, ResolvedAddress
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.features import Transport
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.replay import ReplaySpec
from penstock.resources.secrets import (
    NO_SECRETS,
    SIGNING,
    UsedSecret,
    UsedSecrets,
    find_certificate,
    find_secret,
)
from penstock.resources.trigger import Trigger
from penstock.runtime.hosts import from_here, in_url
from penstock.settings import Settings

JOB_SINK_HOST = service_host("job-sink", "knative-eventing")
REQUEST_REPLY_HOST = service_host("request-reply", "knative-eventing")
BROKER_INGRESS_HOST = service_host("broker-ingress", "knative-eventing")


def used_secrets(
    tracker: Tracker, me: Observer, namespace: str, options: RouteOptions, subscriber: str | None
) -> UsedSecrets:
    """The Secrets that the annotations name, for deliveries to this address; `me` is enqueued when they change."""

    def look(name: str) -> Mapping[str, Any] | str:
        found = tracker.look(me, SECRET, Key(namespace, name))
        if found is not None:
            return found
        unseen = tracker.informer(SECRET).unserved
        if unseen:
            return f"{unseen}. Let the control plane list and watch Secrets"
        return f'the Secret "{name}" does not exist. Create it in the namespace {namespace}, or correct the name'

    return UsedSecrets(
        find_secret(SIGNING, options.sign_with, look), find_certificate(options.client_certificate, subscriber, look)
    )


def secret_version(used: UsedSecret | None) -> SecretVersion | None:
    """The Secret's part of a record."""
    return None if used is None else SecretVersion(used.name, used.version)


def broker_path(identity: ObjectIdentity) -> str:
    """The path at which the ingress accepts a Broker's events."""
    return f"/{identity.namespace}/{identity.name}"


def channel_path(identity: ObjectIdentity) -> str:
    """The path at which the ingress accepts a channel's events."""
    return f"/channels/{identity.namespace}/{identity.name}"


def channel_host(identity: ObjectIdentity) -> str:
    """The host name of a channel, as in Knative; some manifests contain it literally."""
    return service_host(f"{identity.name}-kn-channel", identity.namespace)


def broker_target(
    identity: ObjectIdentity,
    *,
    tells_types: bool = False,
    transport: Transport = "disabled",
    access: TargetAccess = OPEN,
) -> Target:
    """A Broker."""
    return Target(
        identity.uid,
        "Broker",
        identity.namespace,
        identity.name,
        (broker_path(identity),),
        tells_types=tells_types,
        transport=transport,
        access=access_record(access),
    )


def channel_target(
    identity: ObjectIdentity,
    *,
    tells_types: bool = False,
    transport: Transport = "disabled",
    access: TargetAccess = OPEN,
) -> Target:
    """A channel, also reached by its host name in full and short."""
    return Target(
        identity.uid,
        "Channel",
        identity.namespace,
        identity.name,
        (channel_path(identity),),
        service_names(channel_host(identity)),
        tells_types=tells_types,
        transport=transport,
        access=access_record(access),
    )


def access_record(access: TargetAccess) -> Access | None:
    """Who may send to a target; None: all clients."""
    return None if access.audience is None else Access(access.audience, access.policies, access.mode)


def ingress_name(host: str, settings: Settings) -> ServiceName:
    """A DNS name of the ingress, at port 80 without and at 443 with TLS."""
    here, elsewhere = from_here(settings.host), settings.address_base
    plain = _host_and_port(elsewhere) if elsewhere else f"{here}:{settings.port}"
    is_named = elsewhere or settings.tls_address_base
    secure = _host_and_port(settings.tls_ingress_url) if is_named else f"{here}:{settings.tls_port}"
    return ServiceName(host, {"80": (plain,), "443": (secure,)})


def _host_and_port(url: str) -> str:
    parts = urlsplit(url)
    return f"{in_url(parts.hostname or '')}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def trigger_route(
    trigger: Trigger,
    target: str,
    subscriber: ResolvedAddress,
    delivery: Mapping[str, Any],
    dead_letter: Resolution,
    *,
    account: str = "",
    secrets: UsedSecrets = NO_SECRETS,
) -> Route:
    """The route of a Trigger; `delivery` are the options in force."""
    identity, options = trigger.identity, trigger.options
    return Route(
        identity.uid,
        "Trigger",
        identity.namespace,
        identity.name,
        target,
        generation=identity.generation,
        attributes=trigger.attributes,
        filters=trigger.filters,
        subscriber=_endpoint(subscriber),
        delivery=_delivery(delivery, dead_letter, secrets),
        max_in_flight=options.max_in_flight,
        ordering=options.ordering,
        paused=options.paused,
        asked_from=options.since,
        account=account,
        signing=secret_version(secrets.signing),
        client_certificate=secret_version(secrets.client_certificate),
    )


def subscription_route(
    entry: Mapping[str, Any],
    channel: ObjectIdentity,
    subscription: ObjectIdentity,
    options: RouteOptions,
    *,
    account: str = "",
    secrets: UsedSecrets = NO_SECRETS,
) -> Route:
    """The route of a Subscription. Resolved addresses and delivery are from its entry in `spec.subscribers` of the
    channel; identity and account are not, since users may be allowed to write that entry."""
    fields = dict(entry)
    delivery = entry.get("delivery") or {}
    sink = delivery.get("deadLetterSink") or {}
    dead_letter = ResolvedAddress(sink["uri"], sink.get("CACerts"), sink.get("audience")) if sink.get("uri") else None
    return Route(
        subscription.uid,
        "Subscription",
        subscription.namespace,
        subscription.name,
        channel.uid,
        generation=int(entry.get("generation") or 0),
        subscriber=_endpoint(ResolvedAddress.read(fields, "subscriber")),
        reply=_endpoint(ResolvedAddress.read(fields, "reply")),
        delivery=_delivery(delivery, dead_letter, secrets),
        max_in_flight=options.max_in_flight,
        ordering=options.ordering,
        paused=options.paused,
        asked_from=options.since,
        account=account,
        signing=secret_version(secrets.signing),
        client_certificate=secret_version(secrets.client_certificate),
    )


def replay_route(spec: ReplaySpec, of: Route, secrets: UsedSecrets = NO_SECRETS) -> Route:
    """The route of a Replay of a Trigger or Subscription: to the same destination, with the Secrets that it needs."""
    identity = spec.identity
    return msgspec.structs.replace(
        of,
        uid=identity.uid,
        kind="Replay",
        namespace=identity.namespace,
        name=identity.name,
        generation=identity.generation,
        start=(),
        asked_from=None,
        former=(),
        signing=secret_version(secrets.signing),
        client_certificate=secret_version(secrets.client_certificate),
        replay=_replay(spec, of.role, of.uid if spec.dead_letters else None),
    )


def past_route(of: Route, since: float) -> Route:
    """The route that delivers the past events that another route asks for, up to where that one begins."""
    return msgspec.structs.replace(
        of,
        uid=past_uid(of.uid),
        kind="Replay",
        start=(),
        asked_from=None,
        former=(),
        replay=Replay(of.role, since, past_of=of.uid),
    )


def replay_to_sink(spec: ReplaySpec, target: str, sink: ResolvedAddress, dead_letter: Resolution) -> Route:
    """The route of a Replay of a Broker or channel to a sink. The sink is its `reply`: none is expected from it."""
    identity = spec.identity
    return Route(
        identity.uid,
        "Replay",
        identity.namespace,
        identity.name,
        target,
        generation=identity.generation,
        reply=_endpoint(sink),
        delivery=_delivery(spec.delivery, dead_letter),
        replay=_replay(spec, "Subscription", None),
    )


def _replay(spec: ReplaySpec, role: Literal["Trigger", "Subscription"], given_up_by: str | None) -> Replay:
    return Replay(
        role,
        spec.since,
        spec.until,
        filters=spec.filters,
        ids=spec.ids,
        given_up_by=given_up_by,
        reason=spec.reason,
        rate=spec.rate,
        dry_run=spec.dry_run,
    )


def _delivery(spec: Mapping[str, Any], dead_letter: Resolution, secrets: UsedSecrets = NO_SECRETS) -> Delivery:
    """A signature covers only the body, so signed events are sent in structured mode unless the spec says otherwise."""
    options = DeliveryOptions.read(dict(spec))
    signed_whole: Literal["json"] | None = "json" if secrets.signing is not None else None
    return Delivery(
        options.retry,
        options.backoff_policy,
        options.backoff_delay,
        options.backoff_max,
        options.timeout,
        options.retry_after_max,
        options.format or signed_whole,
        _endpoint(dead_letter) if isinstance(dead_letter, ResolvedAddress) else None,
    )


def _endpoint(address: ResolvedAddress | None) -> Endpoint | None:
    return None if address is None else Endpoint(address.url, address.ca_certs, address.audience)
