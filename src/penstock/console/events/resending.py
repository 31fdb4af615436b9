"""An event to its Broker or channel once more: as whom, and what is said where it is not accepted.

A place with an audience takes tokens for it. They are those of a ServiceAccount, asked for from the API with the rights
of the user. An API key cannot be had here, since only digests of keys are kept: there a command says the rest.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.concurrency import run_in_threadpool

from penstock.console.events.copied import as_send
from penstock.console.events.places import AcceptingTarget
from penstock.engine.problem import Problem
from penstock.events.event import CloudEvent
from penstock.operations.cluster_api import ClusterApi, NotReached
from penstock.operations.posting import Sent, client_for, post
from penstock.operations.sending import credentials_to

ACCOUNTS = "system:serviceaccount"
DEFAULT_ACCOUNT = "default"
"""Every namespace has it."""


async def send_again(event: CloudEvent, place: AcceptingTarget, api: ClusterApi, account: str) -> None:
    """Sends the event to the place, as the ServiceAccount where it asks for tokens. Raises Problem where it is not
    accepted.
    """
    if not place.address.url:
        raise Problem(f"The {place.label} has no address yet.", "Is it Ready?")
    token = await run_in_threadpool(token_for, place, api, account) if place.address.audience else ""
    try:
        credentials = credentials_to(place.address, token)
    except ValueError as error:
        raise Problem(f"The {place.label} cannot be sent to: {error}.") from None
    async with client_for(credentials) as client:
        sent = await post(client, place.address.url, event, credentials)
    if not sent.accepted:
        raise refusal(sent, event, place, account)


def account_of(user: str, place: AcceptingTarget) -> str:
    """The proposed ServiceAccount: the user's own where it is in the namespace of the Broker or channel."""
    prefix, _, named = user.rpartition(f":{place.namespace}:")
    return named if prefix == ACCOUNTS and named else DEFAULT_ACCOUNT


def token_for(place: AcceptingTarget, api: ClusterApi, account: str) -> str:
    """A token of the ServiceAccount for the place. Raises Problem. Blocks."""
    try:
        return api.token(place.namespace, account, place.address.audience)
    except NotReached:
        raise
    except Problem as problem:
        raise Problem(
            f"The {place.label} takes events only with a token for its audience, and there is none of the "
            f"ServiceAccount {account}: {problem.what}",
            f"Name a ServiceAccount of {place.namespace} of which you may make tokens (the verb create on "
            "serviceaccounts/token).",
        ) from None


def refusal(sent: Sent, event: CloudEvent, place: AcceptingTarget, account: str) -> Problem:
    """What happened to an event that was not accepted, and what to do."""
    if sent.status is None:
        return Problem(f"The {place.label} does not answer at {sent.url}: {sent.problem}.")
    reason = f": {sent.problem}" if sent.problem else "."
    what = f"The {place.label} did not accept it and answered {_status(sent.status)}{reason}"
    if sent.status == HTTPStatus.UNAUTHORIZED and not place.address.audience:
        return Problem(
            what,
            "It accepts only events with an API key. The console has no keys: only their digests "
            f"are stored. With the key in the file key.txt (penstock keys create {place.name} NAME --namespace "
            f"{place.namespace} > key.txt makes one), this sends the event:",
            (as_send(event, place, "--token @key.txt"),),
        )
    if sent.status == HTTPStatus.FORBIDDEN and place.address.audience:
        return Problem(
            what,
            f"The ServiceAccount {account} may not send this. EventPolicies say who may (penstock get eventpolicies "
            f"--namespace {place.namespace}): name another on the event's page, or put it in place of NAME here:",
            (as_send(event, place, "--service-account NAME"),),
        )
    return Problem(what)


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
