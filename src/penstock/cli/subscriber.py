"""The server of `penstock listen`, which prints events, and its temporary Trigger."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.cli.event_text import event_line, event_object
from penstock.cli.filtering import filters_of
from penstock.cli.objects import wait_ready
from penstock.cli.output import say
from penstock.cli.terminal import print_pieces
from penstock.events import http
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.operations.cluster_api import BROKERS, TRIGGERS
from penstock.operations.installation import find
from penstock.runtime.errors import UserError
from penstock.web.server import HttpServer
from penstock.workloads.actors.event_display import display


class PrintingSubscriber:
    """An HTTP server that prints the events it receives."""

    def __init__(self, host: str, port: int, *, answer: int, count: int | None, full: bool, as_json: bool) -> None:
        self._answer, self._left, self._full, self._as_json = answer, count, full, as_json
        self._socket = _listening(host, port)
        self._end = asyncio.Event()
        self.url = f"http://{host}:{self._socket.getsockname()[1]}/"

    async def run(self) -> None:
        """Runs until it is stopped, or has received as many events as asked for."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, self._end.set)
        server = HttpServer(self._app, self._socket)
        await server.start()
        say(f"listening at {self.url}", err=True)
        try:
            await self._end.wait()
        finally:
            await server.stop(1)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405, headers={"Allow": "POST"})
        body = await request.body()
        try:
            events = http.all_from_http(http.fold_headers(request.scope["headers"]), body)
        except MalformedEvent as malformed:
            say(f"not an event: {malformed}", err=True)
            return Response(str(malformed), status_code=400)
        for event in events:
            self._print(event)
        return Response(status_code=self._answer)

    def _print(self, event: CloudEvent) -> None:
        if self._as_json:
            say(msgspec.json.encode(event_object(event)).decode())
        elif self._full:
            say(display(event))
        else:
            print_pieces(event_line(event, time.time()))
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self._end.set()


@contextmanager
def own_trigger(
    broker: str | None,
    filters: Sequence[str] | None,
    url: str,
    namespace: str | None,
    chosen: tuple[Path | None, Path | None],
) -> Iterator[None]:
    """Creates a Trigger from the Broker to the listener and deletes it at the end. Does nothing without a Broker."""
    if broker is None:
        yield
        return
    with find(*chosen).api() as api:
        within, name = namespace or api.namespace, f"listen-{secrets.token_hex(3)}"
        if api.read(BROKERS.path(within, broker)) is None:
            raise UserError(f"Broker {within}/{broker} does not exist.", f"Create it: penstock create broker {broker}")
        spec = {"broker": broker, "filters": filters_of(filters), "subscriber": {"uri": url}}
        trigger = {
            "apiVersion": TRIGGERS.api_version,
            "kind": TRIGGERS.kind,
            "metadata": {"name": name, "namespace": within},
            "spec": spec,
        }
        made = api.create(TRIGGERS, within, trigger)
        try:
            wait_ready(api, TRIGGERS, made)
            yield
        finally:
            api.delete(TRIGGERS, within, name)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=128)
    except OSError as error:
        raise UserError(
            f"Cannot listen on {host}:{port}: {error.strerror}.", "Choose another port: --port N."
        ) from None
