"""A built-in program as a process: `python -m penstock.workloads.actors`, with the node at the other end of its stdin.

It imports few modules, because it starts with every container: no settings, no Kubernetes client, no Kafka, no Spark.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

from penstock.runtime.lifecycle import first
from penstock.runtime.sockets import bound_socket
from penstock.workloads.actors.node_line import NodeLine, Start
from penstock.workloads.actors.options import BrokenEnvironment, read_options
from penstock.workloads.actors.reporting import PodLog, Reports
from penstock.workloads.actors.shown_certificate import Pair, ShownCertificate
from penstock.workloads.actors.volume_files import VolumeFiles
from penstock.workloads.images import Exit, Run


def main() -> int:
    """Runs the program that the node requests; its exit code."""
    line = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return asyncio.run(_main(line))


async def _main(line: socket.socket) -> int:
    node = await NodeLine.on(line)
    start = await node.start()
    ended = [Exit(1)]

    async def run() -> None:
        ended.append(await _run(start, node))

    try:
        await first(run(), node.read())
    except ConnectionError:
        return 1  # the node has ended
    return ended[-1].code


async def _run(start: Start, node: NodeLine) -> Exit:
    log = PodLog(sys.stdout)
    notifications: list[asyncio.Task[None]] = []
    try:
        program = program_of(start, node, log)
    except BrokenEnvironment as broken:
        ended = Exit(1, f"failed to process the environment: {broken}")
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, program.stop, start.grace)
        ended = await program.run(lambda: notifications.append(asyncio.create_task(node.notify("ready"))))
    await asyncio.gather(*notifications)
    if ended.message:
        log.write(ended.message)
        await node.notify("ended", message=ended.message)
    return ended


def program_of(start: Start, node: NodeLine, log: PodLog) -> Run:
    """The program that the node requests. Raises BrokenEnvironment."""

    def listener(port: int) -> socket.socket | None:
        try:
            listening = bound_socket(start.ip, start.ports[port])
            listening.listen(256)
        except OSError:
            return None
        return listening

    def tls_of(service: str) -> ShownCertificate:
        async def ask() -> Pair:
            pair: Pair = await node.ask("certificate", Pair, service=service)
            return pair

        return ShownCertificate(ask, log.write)

    async def record(component: str, name: str, message: str) -> None:
        await node.ask("record", None, component=component, name=name, message=message)

    # Imported where they are needed: a receiver needs no HTTP client.
    match start.program:
        case "event_display":
            from penstock.workloads.actors.event_display import EventDisplay

            return EventDisplay(log, listener)
        case "transform-jsonata":
            from penstock.workloads.actors.outgoing import Outgoing
            from penstock.workloads.actors.transform import Transform

            return Transform(start.env, log, Outgoing(node, start.most_bytes), listener, tls_of=tls_of)
        case "log-sink":
            from penstock.workloads.actors.log_sink import LogSink

            return LogSink(start.env, log, listener, tls_of=tls_of)
        case "timer-source":
            from penstock.workloads.actors.outgoing import Outgoing
            from penstock.workloads.actors.timer_source import TimerOptions, TimerSource

            options = TimerOptions.read(start.env)
            outgoing = Outgoing(node, start.most_bytes, options.certificates or None, with_bundles=True)
            return TimerSource(options, log, outgoing, VolumeFiles(start.volumes))
    from penstock.workloads.actors.program import ActorEnvironment, EventsHub

    wanted = read_options(start.program, {"POD_NAME": start.pod, **start.env})
    reports = Reports(wanted.common, log, record)
    return EventsHub(wanted, ActorEnvironment(node, VolumeFiles(start.volumes), start.most_bytes, reports, listener))


if __name__ == "__main__":
    sys.exit(main())
