"""`penstock send`: an event, or many, to a Broker or Channel; `--watch` follows it to every subscriber."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import (
    AttributeOption,
    ContentTypeOption,
    DataArgument,
    DataDirOption,
    EventOption,
    FileOption,
    IdOption,
    JsonOption,
    KubeconfigOption,
    NamespaceOption,
    SourceOption,
    SubjectOption,
    TypeOption,
)
from penstock.cli.output import say
from penstock.cli.sending_target import CaFileOption, ServiceAccountOption, TokenOption

if TYPE_CHECKING:
    from penstock.events.event import CloudEvent
    from penstock.operations.sending import SendingCredentials, Sent

BrokerOption = Annotated[
    str | None,
    typer.Option("--broker", "-b", help="Broker. (default: default)", autocompletion=completion_of("broker")),
]
ChannelOption = Annotated[
    str | None,
    typer.Option("--channel", help="Channel, instead of a Broker.", autocompletion=completion_of("channel")),
]


def send(
    data: DataArgument = None,
    *,
    event_type: TypeOption = None,
    source: SourceOption = None,
    event_id: IdOption = None,
    subject: SubjectOption = None,
    attributes: AttributeOption = None,
    content_type: ContentTypeOption = None,
    file: FileOption = None,
    event: EventOption = None,
    broker: BrokerOption = None,
    channel: ChannelOption = None,
    to: Annotated[str | None, typer.Option("--to", help="Send to this URL.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Send so many events, each with an id of its own.")] = 1,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Events per second. (default: as fast as possible)")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow the event until every matching route has finished.")
    ] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that --watch waits.")] = 60.0,
    token: TokenOption = None,
    service_account: ServiceAccountOption = None,
    ca_file: CaFileOption = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an event to a Broker or Channel.

    Exits with 1 if an event was not accepted or, with --watch, if a route did not deliver it.
    """
    from penstock.cli.event_input import event_of
    from penstock.cli.sending_target import address_of, credentials_for, given_token, target_of, token_of
    from penstock.cli.terminal import problems
    from penstock.cli.watching import WatchedEvent, watched_event
    from penstock.operations.installation import find
    from penstock.operations.sending import SendingAddress
    from penstock.runtime.errors import UserError

    with problems():
        one = event_of(
            data,
            file=file,
            event=event,
            content_type=content_type,
            attributes=attributes,
            type=event_type,
            source=source,
            id=event_id,
            subject=subject,
        )
        if watch and (count > 1 or to):
            raise UserError(
                "--watch cannot be combined with --count or --to: it follows one event through a Broker or Channel.",
                exit_code=2,
            )
        if service_account and (token or to):
            raise UserError(
                "--service-account cannot be combined with --token or --to: it gets a token for a Broker or Channel.",
                exit_code=2,
            )
        known = given_token(token)
        if to is not None:
            raise typer.Exit(
                _send_all(
                    to,
                    credentials_for(SendingAddress(to), known, ca_file),
                    one,
                    count=count,
                    rate=rate,
                    as_json=as_json,
                )
            )
        installation = find(data_dir, kubeconfig)
        with installation.api() as api:
            resource, target = target_of(api, namespace or api.namespace, broker, channel)
            address = address_of(installation, resource, target)
            if service_account:
                known = token_of(api, service_account, target, address)
            credentials = credentials_for(address, known, ca_file, installation.authority)
            if not watch:
                raise typer.Exit(_send_all(address.url, credentials, one, count=count, rate=rate, as_json=as_json))
            watched = WatchedEvent(one, api, resource, target)
        settings = installation.kafka_settings("penstock send --watch")
        raise typer.Exit(
            watched_event(
                settings, watched, lambda: _send_all(address.url, credentials, one, as_json=as_json), timeout, as_json
            )
        )


def _send_all(
    url: str,
    credentials: SendingCredentials,
    event: CloudEvent,
    *,
    count: int = 1,
    rate: float | None = None,
    as_json: bool = False,
) -> int:
    from penstock.cli.event_sender import EventSender, remedy

    remedies: set[str] = set()

    def one(sent: Sent) -> None:
        remedies.add("" if sent.accepted else remedy(sent.status, sent.fault))
        if as_json:
            say(sent.json())
        elif count == 1 or not sent.accepted:
            say(sent.line(), err=not sent.accepted)

    outcome = asyncio.run(EventSender(url, one, credentials).send(event, count, rate))
    for advice in sorted(filter(None, remedies)):
        say(f"  {advice}", err=True)
    if count > 1 and not as_json:
        say(outcome.line())
    return 0 if outcome.refused == 0 else 1
