"""Sends an event to its Broker or channel again; formats it as a command or JSON.

A Broker or channel with an audience requires a token of a ServiceAccount, requested from the API with the permissions
of the user. An API key cannot be had here, since only digests of keys are kept: there a command says the rest.
"""

from __future__ import annotations

import base64
import shlex
from http import HTTPStatus
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool

from penstock.console.events.state import AcceptingTarget
from penstock.events import http, json_format
from penstock.events.event import CloudEvent
from penstock.history.reader.answers import Event
from penstock.operations.cluster_api import ClusterApi, NotReached
from penstock.operations.sending import SendingAddress, Sent, client_for, credentials_to, post
from penstock.runtime.errors import UserError

LONGEST_ARGUMENT = 64 * 1024
"""Half of what Linux lets a single argument have."""

NAMED = ("specversion", "id", "source", "type", "subject", "time", "dataschema", "datacontenttype")


def cloud_event(event: Event) -> CloudEvent:
    """The event as it was accepted."""
    named = {name: value for name in NAMED if (value := getattr(event, name)) is not None}
    return CloudEvent({**named, **event.extensions}, event.data)


def as_json(event: CloudEvent) -> str:
    """CloudEvents JSON."""
    return json_format.encode(event).decode()


def as_curl(event: CloudEvent, target: AcceptingTarget | None, account: str = "") -> str:
    """A command that sends the event again, with a token of the ServiceAccount if one is required. Data that
    is too long for a command is taken from a file.
    """
    headers, body = http.to_binary(event)
    address = target.address if target is not None else SendingAddress("")
    lines = [f"curl {shlex.quote(address.url or 'http://ADDRESS')}"]
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers]
    before = ""
    if target is not None and address.audience:
        asked = ["kubectl", "create", "token", account, "-n", target.namespace, "--audience", address.audience]
        lines.append(f'-H "Authorization: Bearer $({shlex.join(asked)})"')
    if target is not None and address.authorities:
        file = f"{target.name}-ca.pem"
        shown = ["kubectl", "get", target.kind.lower(), target.name, "-n", target.namespace]
        before = f"{shlex.join(shown)} -o jsonpath='{{.status.address.CACerts}}' > {shlex.quote(file)}\n"
        lines.append(f"--cacert {shlex.quote(file)}")
    if not any(name.lower() == http.CONTENT_TYPE for name, _ in headers):
        lines.append("-H 'Content-Type:'")  # curl would name one of its own
    text = _text(body)
    if len(body) > LONGEST_ARGUMENT:
        return before + _joined([*lines, f"--data-binary @{shlex.quote(file_name(event))}"])
    if text is not None:
        return before + _joined([*lines, f"--data-raw {shlex.quote(text)}"])
    encoded = base64.b64encode(body).decode()
    return f"{before}printf %s {encoded} | base64 -d | " + _joined([*lines, "--data-binary @-"])


def as_send(event: CloudEvent, target: AcceptingTarget, sender: str) -> str:
    """`penstock send` with the event as it is; `sender` are the flags that say who sends. Data that is too long for a
    command is taken from a file.
    """
    flag = "--broker" if target.kind == "Broker" else "--channel"
    to = [f"{flag} {target.name}", f"--namespace {target.namespace}", sender]
    text = as_json(event)
    if len(text.encode()) <= LONGEST_ARGUMENT:
        return f"printf %s {shlex.quote(text)} | \\\n  " + _joined(["penstock send --event -", *to])
    named = [f"-a {shlex.quote(f'{name}={value}')}" for name, value in event.attributes.items()]
    return _joined([f"penstock send --file {shlex.quote(file_name(event))}", *named, *to])


def file_name(event: CloudEvent) -> str:
    """What the data of an event is called as a file."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in event.id)
    return f"event-{plain[:80].strip('.') or 'data'}"


def disposition(name: str) -> str:
    """The header Content-Disposition of a file of this name. A header is ASCII; other letters are encoded as RFC 6266
    says, and browsers prefer that."""
    plain = "".join(letter if letter.isascii() else "-" for letter in name)
    encoded = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{encoded}'


def _text(body: bytes) -> str | None:
    """What can stand in a command; None for bytes."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _joined(lines: list[str]) -> str:
    return " \\\n  ".join(lines)


ACCOUNTS = "system:serviceaccount"
DEFAULT_ACCOUNT = "default"
"""Every namespace has it."""


async def send_again(event: CloudEvent, target: AcceptingTarget, api: ClusterApi, account: str) -> None:
    """Sends the event, as the ServiceAccount if a token is required. Raises UserError where it is not
    accepted.
    """
    if not target.address.url:
        raise UserError(f"The {target.label} has no address yet.", "Check that it is Ready.")
    token = await run_in_threadpool(token_for, target, api, account) if target.address.audience else ""
    try:
        credentials = credentials_to(target.address, token)
    except ValueError as error:
        raise UserError(f"Cannot send to the {target.label}: {error}.") from None
    async with client_for(credentials) as client:
        sent = await post(client, target.address.url, event, credentials)
    if not sent.accepted:
        raise refusal(sent, event, target, account)


def account_of(user: str, target: AcceptingTarget) -> str:
    """The proposed ServiceAccount: the user's own where it is in the namespace of the Broker or channel."""
    prefix, _, named = user.rpartition(f":{target.namespace}:")
    return named if prefix == ACCOUNTS and named else DEFAULT_ACCOUNT


def token_for(target: AcceptingTarget, api: ClusterApi, account: str) -> str:
    """A token of the ServiceAccount for the target. Raises UserError. Blocks."""
    try:
        return api.token(target.namespace, account, target.address.audience)
    except NotReached:
        raise
    except UserError as problem:
        raise UserError(
            f"The {target.label} requires a token for its audience, and none could be created for the "
            f"ServiceAccount {account}: {problem.what}",
            f"Choose a ServiceAccount of {target.namespace} for which you may create tokens (the verb create on "
            "serviceaccounts/token).",
        ) from None


def refusal(sent: Sent, event: CloudEvent, target: AcceptingTarget, account: str) -> UserError:
    """What happened to an event that was not accepted, and what to do."""
    if sent.status is None:
        return UserError(f"The {target.label} is unreachable at {sent.url}: {sent.problem}.")
    reason = f": {sent.problem}" if sent.problem else "."
    what = f"The {target.label} did not accept the event and responded with {_status(sent.status)}{reason}"
    if sent.status == HTTPStatus.UNAUTHORIZED and not target.address.audience:
        return UserError(
            what,
            "It accepts only events with an API key, and the console has no keys: only their digests "
            f"are stored. With the key in the file key.txt (penstock keys create {target.name} NAME --namespace "
            f"{target.namespace} > key.txt makes one), this sends the event:",
            (as_send(event, target, "--token @key.txt"),),
        )
    if sent.status == HTTPStatus.FORBIDDEN and target.address.audience:
        return UserError(
            what,
            f"The ServiceAccount {account} is not authorized by the EventPolicies (penstock get eventpolicies "
            f"--namespace {target.namespace}): choose another on the event's page, or replace NAME here:",
            (as_send(event, target, "--service-account NAME"),),
        )
    return UserError(what)


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
