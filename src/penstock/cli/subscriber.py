"""What `penstock listen` runs: an HTTP server that prints events, and the Trigger that sends them to it."""

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
    """Takes events and prints them."""

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
            response = await self._answered(Request(scope, receive))
            await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
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
    """A Trigger of this Broker that leads to the listener, for as long as this lasts. Without a Broker, none."""
    if broker is None:
        yield
        return
    with find(*chosen).api() as api:
        place, name = namespace or api.namespace, f"listen-{secrets.token_hex(3)}"
        if api.read(BROKERS.path(place, broker)) is None:
            raise UserError(f"There is no Broker {place}/{broker}.", f"Make one: penstock create broker {broker}")
        spec = {"broker": broker, "filters": filters_of(filters), "subscriber": {"uri": url}}
        trigger = {
            "apiVersion": TRIGGERS.api_version,
            "kind": TRIGGERS.kind,
            "metadata": {"name": name, "namespace": place},
            "spec": spec,
        }
        made = api.create(TRIGGERS, place, trigger)
        try:
            wait_ready(api, TRIGGERS, made)
            yield
        finally:
            api.delete(TRIGGERS, place, name)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=128)
    except OSError as error:
        raise UserError(
            f"{host}:{port} cannot be listened on: {error.strerror}.", "Choose another: --port N."
        ) from None
