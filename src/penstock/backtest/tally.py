"""What is counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Tally:
    """Events of one hour and one partition that fared alike."""

    hour: datetime
    """Its beginning, UTC."""
    target: str
    fate: str
    """Empty for all events of the target; `c3` for those that only the third candidate would get, `p3` for those that
    only its present Trigger gets, each with `=` behind it for those that both do."""
    partition: int
    count: int
    oldest: int
    newest: int
    """Offsets."""
