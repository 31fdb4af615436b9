"""Which program runs for an image. Images are not pulled: only their name is used.

The setting `images` maps images to commands of this machine; some images of Knative are built-in programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, Protocol, get_args

if TYPE_CHECKING:
    from penstock.settings import ImageCommand

ActorName = Literal["recordevents", "eventshub", "event_display", "transform-jsonata", "timer-source", "log-sink"]

ACTORS: tuple[ActorName, ...] = get_args(ActorName)
"""Identified by the last part of the image's name; registry, tag and digest may differ."""


@dataclass(frozen=True)
class Actor:
    """A built-in program."""

    name: ActorName


@dataclass(frozen=True)
class Program:
    """A program of this machine, named by a setting."""

    pattern: str
    command: tuple[str, ...]
    """Empty: the Pod's own command."""
    namespaces: tuple[str, ...] = ()
    """Namespaces whose Pods may use the image. Empty: all."""
    allowed_variables: tuple[str, ...] = ()
    """Environment variables that a Pod may set although they are rejected by default."""

    @property
    def setting(self) -> str:
        """The name of the setting in messages."""
        return f'the setting images."{self.pattern}"'


class Images:
    """The images that Pods of this node may use."""

    def __init__(self, commands: Mapping[str, ImageCommand]) -> None:
        self._programs = [
            Program(pattern, tuple(one.command), tuple(one.namespaces), tuple(one.allow_env))
            for pattern, one in commands.items()
        ]

    def find(self, reference: str, namespace: str) -> Actor | Program | None:
        """The program for an image such as `gcr.io/x/eventshub@sha256:…` in a namespace, or None."""
        for program in self._programs:
            if program.namespaces and namespace not in program.namespaces:
                continue
            if any(fnmatchcase(spelling, program.pattern) for spelling in _spellings(reference)):
                return program
        name = list(_spellings(reference))[-1].rpartition("/")[2]
        # Tools that build Go programs name their images after the program and a digest of its path.
        return next((Actor(actor) for actor in ACTORS if name == actor or _is_built(name, actor)), None)


def refusal(reference: str, namespace: str) -> str:
    """The error message for an unknown image."""
    pattern = list(_spellings(reference))[-1] or "IMAGE"
    return (
        f"this node starts no containers: it runs programs of this machine, and none is named for {reference or 'it'} "
        f"in the namespace {namespace}. "
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


@dataclass(frozen=True)
class Exit:
    """How a program ended."""

    code: int
    message: str = ""


class Run(Protocol):
    """One run of a container."""

    def stop(self, grace: float) -> None:
        """Stops it within `grace` seconds; 0 kills it."""

    async def run(self, ready: Callable[[], None]) -> Exit:
        """Runs until it ends. `ready` is called when it is ready, or when it is started if that is not known."""


class Stoppable:
    """Base class with the `stop` of a `Run`."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._grace = 0.0

    def stop(self, grace: float) -> None:
        """See `Run`."""
        self._grace = grace
        self._stop.set()
