"""How a Replay goes, as a line. Pure."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def succeeded(replay: Obj) -> tuple[str, str, str]:
    """State, reason and message of `Succeeded`."""
    conditions = (replay.get("status") or {}).get("conditions") or []
    found: Obj = next((one for one in conditions if one.get("type") == "Succeeded"), {})
    return found.get("status", "Unknown"), found.get("reason", ""), found.get("message", "")


def is_over(replay: Obj) -> bool:
    """Whether it has ended."""
    return bool((replay.get("status") or {}).get("completionTime"))


def line_of(replay: Obj) -> str:
    """How far it has got."""
    status, (state, reason, message) = replay.get("status") or {}, succeeded(replay)
    counted, sent, failed = (int(status.get(name) or 0) for name in ("counted", "sent", "failed"))
    counts = f"{counted} counted"
    if not (replay.get("spec") or {}).get("dryRun"):
        counts += f", {sent} sent" + (f", {failed} failed" if failed else "")
    if is_over(replay):
        return f"{counts}: {'done' if state == 'True' else f'{reason}: {message}' if message else reason}"
    if not status.get("startTime"):
        return f"waits: {message or reason or 'nobody has looked at it yet'}"
    return f"{counts}, {status.get('progress') or '0%'} looked at"


def warning_of(replay: Obj) -> str | None:
    """What is no longer kept of what was asked for."""
    conditions = (replay.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one.get("type") == "EventsRetained"), None)
    return None if found is None else str(found.get("message") or "")
