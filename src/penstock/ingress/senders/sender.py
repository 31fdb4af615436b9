"""Who sends a request."""

from __future__ import annotations

from typing import NamedTuple


class Sender(NamedTuple):
    """Somebody who has shown who they are."""

    subject: str
    """Such as `system:serviceaccount:shop:till`."""
    is_invited: bool = False
    """Whether the credentials were made for this very target, so that no EventPolicy is asked about them."""
