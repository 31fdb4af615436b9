"""Which Kubernetes API the published routes belong to: that of this control plane, or another one.

A control plane removes every route without an object in its API. Started by mistake on the Kafka of another API, or on
an API that lost its objects, it would remove them all, together with their cursors. So the routes carry the identity of
their API, and a control plane of another one refuses to start unless `adopt_routes` is set.
"""

from __future__ import annotations

import asyncio

import structlog

from penstock.contract.routes import IDENTITY_KEY, Identity, Route
from penstock.kafka.routes import StoredRoutes
from penstock.kube.client import AsyncClient
from penstock.kube.errors import KubeError
from penstock.kube.kinds import NAMESPACE
from penstock.observability.logs import describe

log = structlog.get_logger()

IDENTIFIED_BY = "kube-system"
"""The namespace whose uid identifies the cluster: Kubernetes creates it first, and it cannot be deleted."""

RETRY_SECONDS = 1.0


class OtherApi(RuntimeError):
    """The routes in Kafka belong to another API."""


class NotIdentified(RuntimeError):
    """The identity of the API cannot be determined."""


async def identify(api: AsyncClient) -> Identity:
    """The API's identity; waits until the API is reachable."""
    logged = False
    while True:
        try:
            # A list, because the controllers have the right to `list` namespaces, but not to `get` them.
            namespaces, _ = await api.list(NAMESPACE)
            break
        except KubeError as error:
            if not error.is_temporary:
                raise NotIdentified(
                    f"The namespace {IDENTIFIED_BY} of the API at {api.url}, which identifies it, cannot be read "
                    f"({error.code}): give the user of `kubeconfig` the right to list namespaces."
                ) from error
            if not logged:
                log.warning("the API is not reachable; waiting for it", url=api.url, error=describe(error))
            logged = True
        await asyncio.sleep(RETRY_SECONDS)
    for namespace in namespaces:
        if namespace["metadata"]["name"] == IDENTIFIED_BY:
            return Identity(str(namespace["metadata"]["uid"]))
    raise NotIdentified(f"The API at {api.url} has no namespace {IDENTIFIED_BY}: it is not a Kubernetes cluster.")


def check(stored: StoredRoutes, own: Identity, *, adopt: bool) -> None:
    """Raises OtherApi where the routes belong to another API and are not to be adopted."""
    held = stored.records.get(IDENTITY_KEY)
    if not isinstance(held, Identity) or held == own:
        return  # there are none yet, they are from a version without identities, or they are its own
    routes = sum(isinstance(record, Route) for record in stored.records.values())
    if adopt:
        log.warning("the routes of another API are taken over", before=held.api, now=own.api, routes=routes)
        return
    raise OtherApi(
        f"The {routes} routes in this Kafka were made from the objects of another Kubernetes API (its namespace "
        f"{IDENTIFIED_BY} has the uid {held.api}, this one's has {own.api}). They would be removed together with their "
        "undelivered events. Check `kubeconfig` and `kafka`; give this installation a `topic_prefix` of its own; "
        "restore the API's objects (api.db); or, if the former API is gone for good, start once with "
        "--set adopt_routes=true."
    )
