"""`penstock pause` and `penstock resume`: pause and resume deliveries of Triggers and Subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path

RoutesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="ROUTE…",
        help="trigger/NAME or subscription/NAME; a name alone means a Trigger.",
        autocompletion=completion_of("trigger", "subscription"),
    ),
]


def pause(
    routes: RoutesArgument,
    *,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause deliveries to these routes; events wait, as long as retention keeps them."""
    _set_paused(routes, True, namespace, (data_dir, kubeconfig), as_json)


def resume(
    routes: RoutesArgument,
    *,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume deliveries to these routes, waiting events first."""
    _set_paused(routes, False, namespace, (data_dir, kubeconfig), as_json)


def _set_paused(
    routes: list[str], paused: bool, namespace: str | None, chosen: tuple[Path | None, Path | None], as_json: bool
) -> None:
    import json

    from penstock.cli.names import look_up
    from penstock.cli.terminal import problems
    from penstock.operations.cluster_api import is_paused, set_paused
    from penstock.operations.installation import find

    with problems(), find(*chosen).api() as api:
        within = namespace or api.namespace
        # All are looked up before any is changed, so that a wrong name changes nothing.
        found = [look_up(api, route, within, ("trigger", "subscription")) for route in routes]
        for resource, obj in found:
            name = obj["metadata"]["name"]
            was = is_paused(obj)
            set_paused(api, resource, obj, paused)
            lag = ((obj.get("status") or {}).get("delivery") or {}).get("lag", 0)
            if as_json:
                say(json.dumps({"kind": resource.kind, "namespace": within, "name": name, "paused": paused}))
                continue
            done = "is paused" if paused else "is resumed"
            already = " already" if was == paused else ""
            waiting = f"; {lag} event{'' if lag == 1 else 's'} wait" if lag else ""
            say(f"{resource.kind.lower()}/{name} {done}{already}{waiting}")
