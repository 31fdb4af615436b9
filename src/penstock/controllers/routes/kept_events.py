"""Where the history's table begins, for Replays of what Kafka has forgotten. Blocks: for a thread."""

from __future__ import annotations

import structlog

from penstock.history.reader.kept import FirstKept, KeptEvents
from penstock.history.schema.problem import HistoryProblem
from penstock.settings import Settings

log = structlog.get_logger()


def kept_since(settings: Settings, since: float) -> dict[int, FirstKept]:
    """By partition; nothing where the table is not there, or cannot be read: then Replays have what Kafka has."""
    kept = KeptEvents(settings)
    try:
        return kept.firsts(since)
    except HistoryProblem as problem:
        log.warning("the history cannot be read; a Replay begins with what Kafka has", problem=str(problem))
        return {}
    finally:
        kept.close()
