"""Who sends a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.events.event import CloudEvent


class Sender(NamedTuple):
    """Somebody who has shown who they are."""

    subject: str
    """Such as `system:serviceaccount:shop:till`."""
    is_invited: bool = False
    """Whether the credentials were made for this very target, so that no EventPolicy is asked about them."""
    spend: Callable[[Sequence[CloudEvent]], None] | None = None
    """Told what was sent, where the credentials allow so much only."""
