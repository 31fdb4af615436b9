"""Backtests that were asked for on the playground: one at a time, each in a process of its own.

A backtest is a Spark session over the history. It takes half a minute and a gigabyte, which the console does not have
to spare; the process ends with its answer, and with the console.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.engine.processes.process import tied_to_parent
from penstock.runtime.errors import UserError
from penstock.settings import Settings

KEPT = 5
LONGEST_SECONDS = 900.0


@dataclass
class Backtest:
    """One of them."""

    trigger: str
    """The Trigger that is tried, in YAML."""
    since: str
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    report: dict[str, Any] | None = None
    problem: str = ""

    @property
    def is_over(self) -> bool:
        """Whether there is an answer."""
        return self.report is not None or bool(self.problem)


class Backtests:
    """Those that run, and the last that have ended. Used from one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: OrderedDict[str, Backtest] = OrderedDict()
        self._running: asyncio.Task[None] | None = None

    def start(self, trigger: str, since: str, namespace: str) -> Backtest:
        """Begins one. Raises UserError while another runs."""
        if self._running is not None and not self._running.done():
            raise UserError("Another backtest is running.", "Wait until it ends.")
        test = Backtest(trigger, since)
        self._kept[test.id] = test
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        self._running = asyncio.get_running_loop().create_task(self._run(test, namespace), name="backtest")
        return test

    def find(self, ident: str) -> Backtest | None:
        """One that runs or has ended."""
        return self._kept.get(ident)

    async def ended(self) -> None:
        """Waits for the end of the one that runs."""
        if self._running is not None:
            await asyncio.wait({self._running})

    async def close(self) -> None:
        """Ends what runs."""
        if self._running is not None:
            self._running.cancel()
            await self.ended()

    def command(self, since: str, namespace: str) -> list[str]:
        """The command that is run; the Trigger is its input."""
        words = ["backtest", "--json", "--filename", "-", f"--since={since}", f"--namespace={namespace}"]
        if self._settings.kubeconfig is not None:
            words.append(f"--kubeconfig={self._settings.kubeconfig}")
        else:
            words.append(f"--data-dir={self._settings.data_dir}")
        return [sys.executable, "-m", "penstock.cli", *words]

    async def _run(self, test: Backtest, namespace: str) -> None:
        """Whatever happens, the backtest has an end that its page can show."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                test.report = await self._answer(test, namespace)
        except TimeoutError:
            test.problem = f"The backtest was ended after {LONGEST_SECONDS:.0f} s. Try a shorter time."
        except asyncio.CancelledError:
            test.problem = "The console was stopped."
            raise
        except (OSError, UserError) as error:
            test.problem = str(error)

    async def _answer(self, test: Backtest, namespace: str) -> dict[str, Any]:
        life, held = os.pipe()
        process = None
        try:
            process = await asyncio.create_subprocess_exec(
                *tied_to_parent(self.command(test.since, namespace), life),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(life,),
                start_new_session=True,
            )
            output, errors = await process.communicate(test.trigger.encode())
        finally:
            os.close(life)
            os.close(held)
            if process is not None:
                await _end(process)
        if process.returncode != 0:
            raise UserError(_last_lines(errors) or f"The backtest failed with exit code {process.returncode}.")
        try:
            report: dict[str, Any] = msgspec.json.decode(output)
        except msgspec.DecodeError:
            raise UserError("The backtest returned no result.", _last_lines(errors)) from None
        return report


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends it with what it started, if it runs."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _last_lines(errors: bytes) -> str:
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    return " ".join(lines[-3:])[:500]
