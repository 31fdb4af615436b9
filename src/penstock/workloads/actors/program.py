"""One run of a container: the receiver and the sender that its environment asks for, from start to exit code."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyreqwest.client import Client

from penstock.lifecycle import first
from penstock.workloads.actors.http_actor import PORT, TLS_PORT
from penstock.workloads.actors.options import ActorOptions, BrokenEnvironment, ReceiverOptions
from penstock.workloads.actors.receiver import Receiver, Review
from penstock.workloads.actors.reporting import Reports
from penstock.workloads.actors.sender import Locate, SendingActor
from penstock.workloads.run import Exit, Stoppable
from penstock.workloads.server import PortTaken, TakeListener, serving


@dataclass(frozen=True)
class ActorEnvironment:
    """What a program needs of its node."""

    client: Client
    locate: Locate
    reports: Reports
    take_listener: TakeListener
    review: Review


class EventsHub(Stoppable):
    """The program behind `recordevents` and `eventshub`."""

    def __init__(self, options: ActorOptions, surroundings: ActorEnvironment) -> None:
        super().__init__()
        self._options, self._around = options, surroundings

    async def run(self, ready: Callable[[], None]) -> Exit:
        """Runs to its end. `ready` is called once it serves."""
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
            sender = SendingActor(
                self._options.common.name,
                self._options.sender,
                self._around.reports,
                self._around.client,
                self._around.locate,
            )
            ended = await self._until_stopped(sender)
            if self._options.receiver and ended.code == 0:
                await self._stop.wait()
            return ended

    def _receiving(self, wanted: ReceiverOptions) -> contextlib.AbstractAsyncContextManager[None]:
        """Receives meanwhile, at both ports where TLS is asked for. Raises BrokenEnvironment and PortTaken."""
        receiver = Receiver(self._options.common.name, wanted, self._around.reports, self._around.review)
        ports = {PORT: None} | ({TLS_PORT: tls_from(Path(wanted.certificates))} if wanted.certificates else {})
        return serving(receiver, ports, self._around.take_listener, lambda: self._grace)

    async def _until_stopped(self, sender: SendingActor) -> Exit:
        try:
            await first(sender.run(), self._stop.wait())
        except BrokenEnvironment as broken:
            return Exit(1, str(broken))
        return Exit(143, "stopped") if self._stop.is_set() else Exit(0)


def tls_from(folder: Path) -> ssl.SSLContext:
    """TLS of a server with the certificate of a mounted Secret. Raises BrokenEnvironment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    except OSError as error:
        raise BrokenEnvironment(f"error while starting the HTTPS server: {error}") from error
    return context
