"""Reads settings from flags, the environment and `penstock.toml`. Every value remembers where it was found.

Nothing is ignored silently: for each unknown name and invalid value the error has a line that says where it was found
and suggests a correction.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.kafka_properties import secrets_given
from penstock.runtime.errors import UserError
from penstock.settings import SETTINGS_FILE, Settings

PREFIX = "PENSTOCK_"

OTHER_VARIABLES = frozenset(
    {
        "PENSTOCK_INSTANCE",
        "PENSTOCK_URL",
        "PENSTOCK_TOKEN",
        "PENSTOCK_CA",
        "PENSTOCK_NAMESPACE",
        "PENSTOCK_INGRESS",
        "PENSTOCK_SEND_TOKEN",
    }
)
"""Variables with the prefix that are not settings: the supervisor sets the first for its ingress processes, the others
select the installation that a command uses, and its credentials.
"""

USAGE_EXIT_CODE = 2


@dataclass(frozen=True)
class Given:
    """A value and where it was found."""

    name: str
    """Name of the setting."""
    value: Any
    origin: str
    """How the user wrote it: `--port`, `PENSTOCK_PORT`, `port in penstock.toml`."""


def resolve(flags: Mapping[str, Any], assignments: Iterable[str], environ: Mapping[str, str], file: Path) -> Settings:
    """The settings in force. Raises UserError with a line for each mistake."""
    given = [*_from_flags(flags), *_from_assignments(assignments), *_from_environment(environ), *_from_file(file)]
    wrong = [line for one in given if (line := _unknown(one)) is not None]
    first = {one.name: one for one in reversed(given) if one.name in Settings.model_fields}
    try:
        settings = Settings(**{name: one.value for name, one in first.items()})
    except ValidationError as error:
        wrong += [_refused(first[str(one["loc"][0])], one["msg"]) for one in error.errors(include_url=False)]
    else:
        wrong += _exposed(first.get("kafka_conf"), settings)
    if wrong:
        raise _problem(wrong)
    return settings


def _exposed(given: Given | None, settings: Settings) -> Iterator[str]:
    """Secrets in flags, which other users of this machine could read in the process list."""
    if given is not None and given.origin.startswith("--"):
        for name in secrets_given(settings.kafka_conf):
            yield (
                f"{given.origin}: {name} would be visible in the process list; set it in {SETTINGS_FILE}, in "
                f'{PREFIX}KAFKA_CONF, or as {{"file": "…"}} or {{"env": "…"}}.'
            )


def _from_flags(flags: Mapping[str, Any]) -> Iterator[Given]:
    for name, value in flags.items():
        if value is not None:
            yield Given(name, value, f"--{name.replace('_', '-')}")


def _from_assignments(assignments: Iterable[str]) -> Iterator[Given]:
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign:
            raise _problem([f"Invalid --set {assignment}: write NAME=VALUE."])
        yield Given(name.strip(), value, f"--set {name.strip()}")


def _from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    for variable, value in sorted(environ.items()):
        if variable.upper().startswith(PREFIX) and variable not in OTHER_VARIABLES:
            yield Given(variable[len(PREFIX) :].lower(), value, variable)


def _from_file(file: Path) -> Iterator[Given]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _problem([f"{file} cannot be read: {error.strerror}."]) from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise _problem([f"{file} is not valid TOML (name = value): {error}."]) from None
    for name, value in values.items():
        yield Given(name, value, f"{name} in {file.name}")


def _unknown(given: Given) -> str | None:
    if given.name in Settings.model_fields:
        return None
    near = get_close_matches(given.name, Settings.model_fields, n=1, cutoff=0.6)
    advice = f"did you mean {_as_written(near[0], given)}?" if near else "docs/settings.md lists all settings."
    return f"Unknown setting {given.origin}; {advice}"


def _as_written(name: str, given: Given) -> str:
    """The name of a setting, spelled as the other one was."""
    return PREFIX + name.upper() if given.origin.upper().startswith(PREFIX) else name


def _refused(given: Given, reason: str) -> str:
    """The message about an invalid value, which is not shown if it may contain secrets."""
    shown = f" {given.value!r}" if Settings.model_fields[given.name].repr else ""
    reason = reason.removeprefix("Value error, ")
    return f"Invalid value{shown} of {given.origin}: {reason[:1].lower()}{reason[1:]}."


def _problem(lines: list[str]) -> UserError:
    return UserError("\n".join(lines), exit_code=USAGE_EXIT_CODE)


def load(assignments: list[str] | None = None, **flags: Any) -> Settings:
    """The settings of this command: its flags, this process's environment, the file in the working directory."""
    return resolve(flags, assignments or [], os.environ, Path(SETTINGS_FILE))
