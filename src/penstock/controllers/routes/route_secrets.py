"""The Secrets that a route needs: whether they are there and of use. The data plane is told names and versions only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.contract.routes import SecretVersion
from penstock.controllers.tracker import Observer, Tracker
from penstock.kube.kinds import SECRET, Key
from penstock.resources.delivery.annotations import RouteOptions
from penstock.resources.secrets.uses import SIGNING, UsedSecret, UsedSecrets, find_certificate, find_secret


def used_secrets(
    tracker: Tracker, me: Observer, namespace: str, options: RouteOptions, subscriber: str | None
) -> UsedSecrets:
    """What the annotations ask for, for deliveries to this address; who asks hears when it changes."""

    def look(name: str) -> Mapping[str, Any] | str:
        found = tracker.look(me, SECRET, Key(namespace, name))
        if found is not None:
            return found
        unseen = tracker.informer(SECRET).unserved
        if unseen:
            return f"{unseen}. Let the control plane list and watch Secrets"
        return f'the Secret "{name}" is not there. Create it in the namespace {namespace}, or correct the name'

    return UsedSecrets(
        find_secret(SIGNING, options.sign_with, look), find_certificate(options.client_certificate, subscriber, look)
    )


def secret_version(used: UsedSecret | None) -> SecretVersion | None:
    """The Secret as the data plane is told of it."""
    return None if used is None else SecretVersion(used.name, used.version)
