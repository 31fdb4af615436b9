"""`penstock lag`: how many events wait for each route, since when, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from penstock.cli.options import DataDirOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.cli.output import say

HEADINGS = ("lag", "oldest", "delivering", "route")


def lag(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Include routes without waiting events.")] = False,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show routes with waiting events, the worst first, and routes that fail or will lose events, with the reason.

    The numbers are from the metrics of a stack on this machine, otherwise from the status of the routes.
    """
    import json

    from penstock.cli.terminal import problems
    from penstock.operations.cluster_api import ROUTES
    from penstock.operations.installation import find
    from penstock.operations.stack_state import METRICS, routes_behind

    with problems():
        installation = find(data_dir, kubeconfig)
        with installation.api() as api:
            objects = [obj for resource in ROUTES for obj in api.all(resource, namespace or "")]
        measured = routes_behind(installation.root / METRICS) if installation.root is not None else None
        rows = route_lags(objects, measured, datetime.now(UTC))
        if not everything:
            rows = [row for row in rows if row["lag"] or row["delivering"] == "False" or row["expiring"]]
        if as_json:
            say(json.dumps(rows, indent=2))
        elif rows:
            say("\n".join(lines(rows)))
        else:
            say(f"no events are waiting for any of {len(objects)} routes")


def route_lags(
    objects: list[dict[str, Any]], measured: list[dict[str, Any]] | None, now: datetime
) -> list[dict[str, Any]]:
    """The routes by their lag; measured numbers take precedence over those of the status."""
    numbers = {(one["kind"], one["namespace"], one["name"]): one for one in measured or []}
    rows = [_row(obj, numbers, measured is not None, now) for obj in objects]
    return sorted(rows, key=lambda row: (-row["lag"], row["delivering"] != "False", row["namespace"], row["name"]))


def _row(
    obj: dict[str, Any], numbers: dict[tuple[str, str, str], dict[str, Any]], is_measured: bool, now: datetime
) -> dict[str, Any]:
    from penstock.resources.conditions import find
    from penstock.resources.delivery_status import DELIVERING
    from penstock.resources.destinations import EVENTS_RETAINED, is_expiring
    from penstock.runtime.times import parse_rfc3339

    metadata, status = obj["metadata"], obj.get("status") or {}
    delivery, condition = status.get("delivery") or {}, find(status.get("conditions"), DELIVERING) or {}
    retained = find(status.get("conditions"), EVENTS_RETAINED) or {}
    behind = numbers.get((obj["kind"], metadata["namespace"], metadata["name"]))
    since = delivery.get("oldestEventTime")
    oldest = (now - parse_rfc3339(since)).total_seconds() if since else None
    if is_measured:
        oldest = behind["oldest_seconds"] if behind else None
    return {
        "kind": obj["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "lag": (behind["lag"] if behind else 0) if is_measured else delivery.get("lag", 0),
        "oldest_seconds": None if oldest is None else round(oldest, 1),
        "delivering": condition.get("status"),
        "reason": condition.get("reason"),
        "message": condition.get("message"),
        "expiring": retained.get("message") if is_expiring(retained) else None,
    }


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table; below it, why routes fail, and which of them will lose events."""
    from penstock.cli.output import lines_of
    from penstock.operations.formatting import count, duration

    cells = [
        (
            count(row["lag"]),
            duration(row["oldest_seconds"]) if row["oldest_seconds"] else "",
            {"True": "yes", "False": row["reason"] or "no"}.get(row["delivering"] or "", ""),
            _name(row),
        )
        for row in rows
    ]
    reasons = [f"{_name(row)}: {row['message']}" for row in rows if row["delivering"] == "False" and row["message"]]
    reasons += [f"{_name(row)}: {row['expiring']}" for row in rows if row["expiring"]]
    return [*lines_of(HEADINGS, cells, HEADINGS[:2]), *(["", *reasons] if reasons else [])]


def _name(row: dict[str, Any]) -> str:
    namespace = "" if row["namespace"] == "default" else f" ({row['namespace']})"
    return f"{row['kind'].lower()}/{row['name']}{namespace}"
