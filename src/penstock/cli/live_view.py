"""What `penstock tail` shows: which records of which topic, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    pass


POLL_SECONDS = 0.2
EVENTS = ("broker", "channel", "inmemorychannel")
ROUTES = ("trigger", "subscription")


@dataclass(frozen=True)
class WantedView(LiveSelection):
    """What is to be shown."""

    is_attempts: bool = False

    @property
    def topic(self) -> str:
        """Where it is."""
        return topics.ATTEMPTS if self.is_attempts else topics.EVENTS

    def narrowed(self, api: ClusterApi, what: str, namespace: str) -> WantedView:
        """The same of one object. Raises UserError."""
        resource, obj = look_up(api, what, namespace, EVENTS + ROUTES)
        is_route = resource.kind.lower() in ROUTES
        if self.is_attempts and not is_route:
            raise UserError("--deliveries is for a trigger/NAME or a subscription/NAME, or for all.", exit_code=2)
        uid = obj["metadata"]["uid"]
        if resource == CHANNELS:
            # Events are accepted for the channel behind it, which has its name.
            behind = ((obj.get("status") or {}).get("channel") or {}).get("name")
            if behind:
                uid = look_up(api, f"inmemorychannel/{behind}", namespace, EVENTS)[1]["metadata"]["uid"]
        return replace(self, is_attempts=is_route, uid=uid)


class LiveView:
    """Prints what is wanted."""

    def __init__(self, wanted: WantedView, *, as_json: bool, count: int | None, everything: bool) -> None:
        self._wanted, self._as_json, self._left = wanted, as_json, count
        self._sample = None if everything else SampleLimit(self._say)

    def run(self, settings: Settings) -> None:
        """Until there were as many as asked for."""
        with following(settings, self._wanted.topic) as reader:
            while True:
                for _, record in reader.poll(POLL_SECONDS):
                    if not self.take(record):
                        return
                if self._sample is not None:
                    self._sample.turn()

    def take(self, record: LogRecord) -> bool:
        """Shows a record, if it is wanted; false when there have been enough."""
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

    def _say(self, shown: int, of: int) -> None:
        say(f"… a sample: {shown} of {of} in this second", err=self._as_json)
