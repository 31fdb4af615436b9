"""Runs a container of `recordevents` or `eventshub`: its receiver and its sender, from start to exit code."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.runtime.lifecycle import first
from penstock.workloads.actors.http_actor import PORT, TLS_PORT
from penstock.workloads.actors.node_line import NodeLine
from penstock.workloads.actors.options import ActorOptions, BrokenEnvironment, ReceiverOptions, SenderOptions
from penstock.workloads.actors.receiver import Receiver
from penstock.workloads.actors.reporting import Reports
from penstock.workloads.actors.volume_files import VolumeFiles
from penstock.workloads.images import Exit, Stoppable
from penstock.workloads.server import PortTaken, TakeListener, serving


@dataclass(frozen=True)
class ActorEnvironment:
    """The interface of the program to its node."""

    node: NodeLine
    files: VolumeFiles
    most_bytes: int
    """Limit for responses."""
    reports: Reports
    take_listener: TakeListener


class EventsHub(Stoppable):
    """The program behind `recordevents` and `eventshub`."""

    def __init__(self, options: ActorOptions, surroundings: ActorEnvironment) -> None:
        super().__init__()
        self._options, self._around = options, surroundings

    async def run(self, ready: Callable[[], None]) -> Exit:
        """Runs until it ends. `ready` is called when it is ready."""
        async with contextlib.AsyncExitStack() as running:
            if self._options.receiver:
                try:
                    await running.enter_async_context(self._receiving(self._options.receiver))
                except (BrokenEnvironment, PortTaken) as broken:
                    return Exit(1, str(broken))
            ready()
            if self._options.sender is None:
                await self._stop.wait()
                return Exit(0)
            ended = await self._sending(self._options.sender)
            if self._options.receiver and ended.code == 0:
                await self._stop.wait()
            return ended

    def _receiving(self, wanted: ReceiverOptions) -> contextlib.AbstractAsyncContextManager[None]:
        """Receives events, also on the TLS port if TLS is required. Raises BrokenEnvironment and PortTaken."""
        receiver = Receiver(self._options.common.name, wanted, self._around.reports, self._review)
        ports: dict[int, ssl.SSLContext | None] = {PORT: None}
        if wanted.certificates:
            ports[TLS_PORT] = tls_from(wanted.certificates, self._around.files)
        return serving(receiver, ports, self._around.take_listener, lambda: self._grace)

    async def _review(self, token: str, audience: str) -> dict[str, Any] | None:
        user: dict[str, Any] | None = await self._around.node.ask(
            "review", dict[str, Any] | None, token=token, audience=audience
        )
        return user

    async def _sending(self, wanted: SenderOptions) -> Exit:
        """Sends all events, or until stopped."""
        # Imported here, because a receiver alone needs neither an HTTP client nor YAML.
        from penstock.workloads.actors.outgoing import Outgoing
        from penstock.workloads.actors.sender import SendingActor

        around = self._around
        outgoing = Outgoing(around.node, around.most_bytes, wanted.ca_certs)
        sender = SendingActor(self._options.common.name, wanted, around.reports, outgoing, around.files)
        try:
            await first(sender.run(), self._stop.wait())
        except BrokenEnvironment as broken:
            return Exit(1, str(broken))
        finally:
            await outgoing.close()
        return Exit(143, "stopped") if self._stop.is_set() else Exit(0)


def tls_from(folder: str, files: VolumeFiles) -> ssl.SSLContext:
    """A server's TLS context with the certificate of a mounted Secret. Raises BrokenEnvironment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.find(f"{folder}/tls.crt"), files.find(f"{folder}/tls.key"))
    except OSError as error:
        raise BrokenEnvironment(f"error while starting the HTTPS server: {error}") from error
    return context
