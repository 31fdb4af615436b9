"""What an image means here. No container is started from it: its name says which program to run.

The settings map images to commands of this machine; some images of Knative are actors that penstock brings itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

ActorName = Literal["recordevents", "eventshub", "event_display", "transform-jsonata"]

ACTORS: tuple[ActorName, ...] = ("recordevents", "eventshub", "event_display", "transform-jsonata")
"""By the last part of the image's name; registry, tag and digest may differ."""


@dataclass(frozen=True)
class Actor:
    """A program that penstock brings."""

    name: ActorName


@dataclass(frozen=True)
class Program:
    """A program of this machine, named by a setting."""

    pattern: str
    command: tuple[str, ...]
    """Empty: the Pod's own command is run."""

    @property
    def setting(self) -> str:
        """The setting as people find it."""
        return f'the setting images."{self.pattern}"'


class Images:
    """The images that Pods of this node may have."""

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._programs = [Program(pattern, tuple(command)) for pattern, command in commands.items()]

    def find(self, reference: str) -> Actor | Program | None:
        """What runs for an image reference such as `gcr.io/x/eventshub@sha256:…`; None for one that is not known."""
        for program in self._programs:
            if any(fnmatchcase(spelling, program.pattern) for spelling in _spellings(reference)):
                return program
        name = list(_spellings(reference))[-1].rpartition("/")[2]
        # Tools that build Go programs name their images after the program and a digest of its path.
        return next((Actor(actor) for actor in ACTORS if name == actor or _is_built(name, actor)), None)


def refusal(reference: str) -> str:
    """What a person is told about an image that is not known here."""
    pattern = list(_spellings(reference))[-1] or "IMAGE"
    return (
        f"this node starts no containers: it runs programs of this machine, and none is named for {reference or 'it'}. "
        f'Name one in penstock.toml, [images] "{pattern}" = ["program", "argument"], and start penstock again. '
        f"Built in are {', '.join(ACTORS)}."
    )


def _spellings(reference: str) -> Iterator[str]:
    """The reference as written, without its digest, and without its tag."""
    yield reference
    undigested = reference.partition("@")[0]
    yield undigested
    path, slash, name = undigested.rpartition("/")
    yield path + slash + name.partition(":")[0]


def _is_built(name: str, actor: str) -> bool:
    stem, dash, digest = name.rpartition("-")
    return bool(dash) and stem == actor and len(digest) == 32 and set(digest) <= set("0123456789abcdef")
