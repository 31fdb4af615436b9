"""Where an actor's observations go: the Pod's log (`kubectl logs`) and Kubernetes Events (`kubectl get events`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TextIO

from penstock.workloads.actors.eventinfo import EventInfo
from penstock.workloads.actors.node_line import NodeRefused
from penstock.workloads.actors.options import Common

Record = Callable[[str, str, str], Awaitable[None]]
"""(component, name of the Event, message) -> written as a Kubernetes Event about the Pod."""


class PodLog:
    """What `kubectl logs` shows: the program's output."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Appends each line of `text`."""
        self._file.write("".join(f"{line}\n" for line in text.splitlines() or [""]))
        self._file.flush()


class Reports:
    """The reports of one container."""

    def __init__(self, common: Common, log: PodLog, record: Record) -> None:
        self._common, self._log, self._record = common, log, record

    async def report(self, info: EventInfo) -> None:
        """Hands the observation to everything that EVENT_LOGS names. A failure is logged, never raised."""
        message = info.to_json()
        if "logger" in self._common.vents:
            self._log.write(message)
        if "recorder" in self._common.vents:
            name = f"{self._common.name}.{info.kind}.{info.sequence}"
            try:
                await self._record(self._common.agent, name, message)
            except (NodeRefused, OSError) as error:  # the event was observed, whatever became of the report
                self._log.write(f"the Event {name} could not be written: {error}")

    def say(self, text: str) -> None:
        """A line for the log alone."""
        self._log.write(text)
