"""Whose routes they are: those of the API that this control plane reads, or of another one.

A control plane drops every route that no object of its API asks for. Started by mistake on the Kafka of another API, or
on an API that lost its objects, it would drop them all, and with them where each route had got to. So the routes carry
the identity of their API, and a control plane of another one does nothing unless it is told to adopt them.
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
"""The namespace whose uid is the cluster's: Kubernetes makes it first, and it cannot be deleted."""

RETRY_SECONDS = 1.0


class OtherApi(RuntimeError):
    """The routes in Kafka are another API's."""


class NotIdentified(RuntimeError):
    """The API does not tell who it is."""


async def identify(api: AsyncClient) -> Identity:
    """The API's identity; waits for one that does not answer yet."""
    told = False
    while True:
        try:
            # A list, as everything else that the controllers look at: to get one takes another right.
            namespaces, _ = await api.list(NAMESPACE)
            break
        except KubeError as error:
            if not error.is_temporary:
                raise NotIdentified(
                    f"The API at {api.url} does not show its namespace {IDENTIFIED_BY} ({error.code}), by which it is "
                    "known from others: give the user of `kubeconfig` the right to list namespaces."
                ) from error
            if not told:
                log.warning("the API does not answer; waiting for it", url=api.url, error=describe(error))
            told = True
        await asyncio.sleep(RETRY_SECONDS)
    for namespace in namespaces:
        if namespace["metadata"]["name"] == IDENTIFIED_BY:
            return Identity(str(namespace["metadata"]["uid"]))
    raise NotIdentified(f"The API at {api.url} has no namespace {IDENTIFIED_BY}: it is no Kubernetes.")


def check(stored: StoredRoutes, own: Identity, *, adopt: bool) -> None:
    """Raises OtherApi where the routes are another API's and nobody said to adopt them."""
    held = stored.records.get(IDENTITY_KEY)
    if not isinstance(held, Identity) or held == own:
        return  # nobody's yet, of a version that noted no identity, or its own
    routes = sum(isinstance(record, Route) for record in stored.records.values())
    if adopt:
        log.warning("the routes of another API are taken over", before=held.api, now=own.api, routes=routes)
        return
    raise OtherApi(
        f"The {routes} routes in this Kafka were made from the objects of another Kubernetes API (its namespace "
        f"{IDENTIFIED_BY} has the uid {held.api}, this one's has {own.api}). They would be removed, with all that they "
        "have not delivered. Look at `kubeconfig` and `kafka`; give this installation a `topic_prefix` of its own; "
        "bring the API's objects (api.db) back; or, if the former API is gone for good, start once with "
        "--set adopt_routes=true."
    )
