"""What the commands show on the terminal: errors, and the components of a stack while it starts and stops.

On a terminal the components are one live line; elsewhere each change is printed as a line. Colours follow NO_COLOR.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from penstock.cli import dev
from penstock.cli.output import safe
from penstock.engine import running_stacks
from penstock.runtime.errors import UserError
from penstock.runtime.hosts import reachable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.status import Status

    from penstock.engine.processes.supervisor import Watch
    from penstock.settings import Settings

_COLOURS = {"ready": "green", "starting": "yellow", "restarting": "red", "waiting": "dim", "stopping": "yellow"}


class SafeConsole(Console):
    """A console of rich that escapes control characters in texts on a terminal; its own control codes pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed."""
        segments = super().render(renderable, options)
        if not self.is_terminal:
            return segments
        return (one if one.control else Segment(safe(one.text), one.style) for one in segments)


def console(*, stderr: bool = False) -> SafeConsole:
    """Standard output, or standard error."""
    return SafeConsole(stderr=stderr, highlight=False, soft_wrap=True)


@contextmanager
def problems() -> Iterator[None]:
    """Prints the error without a traceback and exits with its code."""
    try:
        yield
    except UserError as problem:
        errors = console(stderr=True)
        for line in problem.details:
            errors.print(f"  [dim]{escape(_readable(line))}[/dim]")
        for line in problem.what.splitlines():
            errors.print(f"[bold red]penstock:[/bold red] {escape(line)}")
        if problem.remedy:
            errors.print(f"  {escape(problem.remedy)}")
        raise typer.Exit(problem.exit_code) from None


def print_pieces(pieces: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Prints pieces of text in one line, each with its style."""
    out = console()
    line = Text(indent)
    for number, (text, style) in enumerate(pieces):
        # Text drops some control characters silently.
        line.append("  " if number else "").append(safe(text) if out.is_terminal else text, style=style)
    out.print(line)


class StackScreen:
    """Shows a stack that starts, runs and stops."""

    def __init__(self, *, stderr: bool = False) -> None:
        import asyncio

        self._console = console(stderr=stderr)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._status: Status | None = None
        self._states: dict[str, str] = {}
        self._been_ready: set[str] = set()
        self._stopping = 0.0
        self.console_ready = asyncio.Event()
        """Set once the console is ready."""

    @property
    def is_terminal(self) -> bool:
        """Whether standard output is a terminal; otherwise what is printed may end in a log."""
        return sys.stdout.isatty()

    def fetching(self, done: int, total: int, what: str) -> None:
        """Shows a progress bar on a terminal; elsewhere prints a line at every tenth file."""
        if not self._console.is_terminal:
            if done % 10 == 0 or done == total:
                self._console.print(f"fetching jars: {done} of {total} ({what})")
            return
        if self._progress is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("fetching jars of Kafka and Spark's connector, once"),
                *(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("[dim]{task.description}")),
                console=self._console,
            )
            self._progress.start()
            self._task = self._progress.add_task(what, total=total)
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total, description=what)
        if done >= total:
            self._progress.stop()
            self._progress = None

    def notice(self, text: str) -> None:
        """Prints a line about the stack as a whole."""
        self._console.print(f"[yellow]note:[/yellow] {escape(text)}")

    def began(self, settings: Settings) -> None:
        """Called before the components start."""
        self._console.print(f"penstock starts in {escape(str(settings.data_dir))}")
        if self._console.is_terminal and not settings.verbose:
            self._status = self._console.status("starting")
            self._status.start()

    def changed(self, watch: Watch) -> None:
        """Called when a component changes its state."""
        if self._states.get(watch.name) == watch.state:
            return
        self._states[watch.name] = watch.state
        if self._status is not None:
            self._status.update("  ".join(_coloured(name, state) for name, state in self._states.items()))
        elif watch.state == "ready" and not self._stopping:
            again = watch.name in self._been_ready
            state = "[green]is ready again[/green]" if again else f"[green]ready[/green]{_address(watch)}"
            self._console.print(f"  {watch.name} {state}")
        if watch.state == "ready":
            self._been_ready.add(watch.name)
        if watch.state == "ready" and watch.name == "console":
            self.console_ready.set()

    def remark(self, watch: Watch, text: str) -> None:
        """Prints a remark of a component."""
        self._console.print(f"  [yellow]{watch.name}[/yellow] {escape(text)}")

    def news(self, text: str) -> None:
        """Prints a line about the user's objects, such as deliveries that fail."""
        self._console.print(text, markup=False)

    def ready(self, settings: Settings, seconds: float) -> None:
        """Prints that the stack is ready, its addresses, and commands to try."""
        self._end_status()
        kubeconfig = settings.kubeconfig or settings.data_dir / "kubeconfig"
        base = f"{settings.scheme}://{reachable(settings.host)}:{settings.metrics_port}"
        metrics = f"   metrics {base}/metrics" if settings.metrics else ""
        api = "" if settings.kubeconfig else f"   Kubernetes API {settings.api_url}"
        print_line = self._console.print
        print_line(f"[bold green]penstock is ready[/bold green] after {seconds:.1f} s. Ctrl-C stops it.")
        print_line(f"  events {settings.ingress_url}{api}   Kafka {settings.bootstrap}{metrics}")
        if settings.console:
            print_line(f"  console {settings.console_url} (penstock open signs you in)", markup=False)
        print_line(
            "\nIn another terminal, create a Broker, a subscriber that prints events and a Trigger, and send an event:"
        )
        alone = running_stacks.running() in ([], [settings.data_dir])
        for line in dev.first_commands(settings, dev.program(), dev.free_port(), is_alone=alone):
            print_line(f"  {line}", markup=False)
        print_line(f"\nFor kubectl: export KUBECONFIG={escape(str(kubeconfig))}\n")

    def login(self, link: str) -> None:
        """Prints the link that signs in to the console."""
        self._console.print(f"Console sign-in link (works once, within an hour):\n  {link}\n", markup=False)

    def stopping(self) -> None:
        """Called when the stack begins to stop."""
        self._end_status()
        self._stopping = time.monotonic()
        self._console.print("stopping …")

    def log_line(self, component: str, line: str) -> None:
        """Prints a log line (--verbose)."""
        self._console.print(f"[cyan]{component:>10}[/cyan] {escape(_readable(line))}")

    def stopped(self) -> None:
        """Called at the end, also after a failure."""
        self._end_status()
        if self._progress is not None:
            self._progress.stop()
        if self._stopping:
            self._console.print(f"penstock has stopped after {time.monotonic() - self._stopping:.1f} s.")
        sys.stdout.flush()

    def _end_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _coloured(name: str, state: str) -> str:
    return f"[{_COLOURS.get(state, 'dim')}]{name}[/] [dim]{state}[/dim]"


def _address(watch: Watch) -> str:
    address = watch.details.get("address")
    return f" at {address}" if address else ""


def _readable(line: str) -> str:
    from penstock.engine.processes.child_logs import readable

    return readable(line)
