"""`penstock explain`: why an event would match a Trigger or not, filter by filter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import (
    AttributeOption,
    ContentTypeOption,
    DataDirOption,
    EventOption,
    FileOption,
    IdOption,
    JsonOption,
    KubeconfigOption,
    NamespaceOption,
    SourceOption,
    SubjectOption,
    TypeOption,
)
from penstock.cli.output import say
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.filters.reasons import Step

YES, NO = "yes", "no "


def explain(
    route: Annotated[
        str | None,
        typer.Argument(
            metavar="[TRIGGER]", help="Trigger, by its name.", autocompletion=completion_of("trigger", "subscription")
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="The data; - reads it from standard input.")
    ] = None,
    *,
    trigger_file: Annotated[
        Path | None, typer.Option("--trigger", help="File with a Trigger in YAML, instead of an existing one.")
    ] = None,
    event_type: TypeOption = None,
    source: SourceOption = None,
    event_id: IdOption = None,
    subject: SubjectOption = None,
    attributes: AttributeOption = None,
    content_type: ContentTypeOption = None,
    file: FileOption = None,
    event: EventOption = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain why an event would match a Trigger or not. The event is given as with `penstock send`.

    Exits with 0 if it matches and with 1 if not.
    """
    import json

    from penstock.cli.event_input import event_of
    from penstock.cli.filtering import reasons
    from penstock.cli.terminal import problems

    with problems():
        trigger = _trigger(route, trigger_file, namespace, data_dir, kubeconfig)
        one = event_of(
            data,
            file=file,
            event=event,
            content_type=content_type,
            attributes=attributes,
            type=event_type,
            source=source,
            id=event_id,
            subject=subject,
        )
        verdict = reasons(trigger, one)
        if as_json:
            steps = [{"depth": step.depth, "passes": step.passes, "filter": step.text} for step in verdict.steps]
            say(
                json.dumps(
                    {"matches": verdict.matches, "ready": verdict.is_ready, "steps": steps, "notes": verdict.notes},
                    indent=2,
                )
            )
        else:
            _print(verdict.steps)
            for note in verdict.notes:
                say(f"note: {note}")
            say(verdict.sentence)
        raise typer.Exit(0 if verdict.is_delivered else 1)


def _trigger(
    route: str | None, file: Path | None, namespace: str | None, data_dir: Path | None, kubeconfig: Path | None
) -> dict[str, Any]:
    from penstock.cli.manifests import read_manifests
    from penstock.cli.names import look_up
    from penstock.operations.installation import find

    if (route is None) == (file is None):
        raise UserError("Name either a Trigger or a file: --trigger FILE.", exit_code=2)
    if file is not None:
        found = [obj for obj in read_manifests(file) if obj.get("kind") in ("Trigger", "Subscription")]
        if len(found) != 1:
            raise UserError(f"{file} contains {len(found)} Triggers; exactly one is expected.", exit_code=2)
        return found[0]
    with find(data_dir, kubeconfig).api() as api:
        return look_up(api, route or "", namespace or api.namespace, ("trigger", "subscription"))[1]


def _print(steps: list[Step]) -> None:
    from penstock.cli.terminal import print_pieces

    for step in steps:
        mark = (YES, "green") if step.passes else (NO, "red")
        print_pieces([mark, ("  " * step.depth + step.text, "")])
