"""The output of `penstock tail`: selects records of a topic and prints them, or a sample of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from penstock.cli.event_text import attempt_line, event_line, event_object
from penstock.cli.names import look_up
from penstock.cli.output import say
from penstock.cli.terminal import print_pieces
from penstock.contract import topics
from penstock.events.event import CloudEvent
from penstock.kafka.live import LiveSelection, SampleLimit, following
from penstock.kafka.ranges import LogRecord
from penstock.operations.cluster_api import CHANNELS, ClusterApi
from penstock.runtime.errors import UserError
from penstock.settings import Settings

POLL_SECONDS = 0.2
EVENTS = ("broker", "channel", "inmemorychannel")
ROUTES = ("trigger", "subscription")


@dataclass(frozen=True)
class ViewSelection(LiveSelection):
    """The selection to show."""

    is_attempts: bool = False

    @property
    def topic(self) -> str:
        """The topic that has its records."""
        return topics.ATTEMPTS if self.is_attempts else topics.EVENTS

    def narrowed(self, api: ClusterApi, what: str, namespace: str) -> ViewSelection:
        """The selection restricted to one object. Raises UserError."""
        resource, obj = look_up(api, what, namespace, EVENTS + ROUTES)
        is_route = resource.kind.lower() in ROUTES
        if self.is_attempts and not is_route:
            raise UserError(
                "--deliveries takes trigger/NAME or subscription/NAME; without a name it shows all deliveries.",
                exit_code=2,
            )
        uid = obj["metadata"]["uid"]
        if resource == CHANNELS:
            # Events are stored for the InMemoryChannel that backs it.
            backing = ((obj.get("status") or {}).get("channel") or {}).get("name")
            if backing:
                uid = look_up(api, f"inmemorychannel/{backing}", namespace, EVENTS)[1]["metadata"]["uid"]
        return replace(self, is_attempts=is_route, uid=uid)


class LiveView:
    """Prints the selected records."""

    def __init__(self, wanted: ViewSelection, *, as_json: bool, count: int | None, everything: bool) -> None:
        self._wanted, self._as_json, self._left = wanted, as_json, count
        self._sample = None if everything else SampleLimit(self._report_sample)

    def run(self, settings: Settings) -> None:
        """Prints until `count` records were shown."""
        with following(settings, self._wanted.topic) as reader:
            while True:
                for _, record in reader.poll(POLL_SECONDS):
                    if not self.show(record):
                        return
                if self._sample is not None:
                    self._sample.turn()

    def show(self, record: LogRecord) -> bool:
        """Prints a record if it is selected; false after the last one."""
        wanted = self._wanted
        found = wanted.attempt(record) if wanted.is_attempts else wanted.event(record)
        if found is None or (self._sample is not None and not self._sample.admits()):
            return True
        if self._as_json:
            shown = event_object(found) if isinstance(found, CloudEvent) else found
            say(msgspec.json.encode(shown).decode())
        elif isinstance(found, CloudEvent):
            print_pieces(event_line(found, record.at_ms / 1000))
        else:
            print_pieces(attempt_line(found))
        if self._left is not None:
            self._left -= 1
        return self._left != 0

    def _report_sample(self, shown: int, of: int) -> None:
        say(f"… a sample: {shown} of {of} in this second", err=self._as_json)
