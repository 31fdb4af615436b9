"""Defaults of a Parallel: the kind of its Channels, and the namespaces of what it refers to."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.channel.defaults import default_template
from penstock.resources.destinations.destination import fill_destination


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace, spec = namespace_of(obj, ctx), obj["spec"]
    if spec.get("channelTemplate") is None:
        spec["channelTemplate"] = default_template(ctx, namespace)
    for branch in spec.get("branches") or []:
        for name in ("filter", "subscriber", "reply"):
            fill_destination(branch.get(name), namespace)
    fill_destination(spec.get("reply"), namespace)
