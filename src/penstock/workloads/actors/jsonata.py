"""Evaluates JSONata expressions in a process that is killed when one takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any

LIMIT_SECONDS = 5.0
START_SECONDS = 60.0
"""Generous, because Python starts slowly on a busy machine."""
LONGEST_LINE = 64 * 1024 * 1024


class CannotTransform(Exception):
    """The expression is invalid or failed for the input."""


class Expressions:
    """Expressions by name, and the process that evaluates them, one after the other."""

    def __init__(self, sources: Mapping[str, str], limit: float = LIMIT_SECONDS) -> None:
        self._sources, self._limit = dict(sources), limit
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Starts the process. Raises CannotTransform for an invalid expression."""
        async with self._turn:
            await self._running_process()

    async def evaluate(self, name: str, value: Any) -> Any:
        """The result of the expression for the value. Raises CannotTransform."""
        async with self._turn:
            process = await self._running_process()
            try:
                return await self._request(
                    process, {"name": name, "input": value, "seconds": 2 * self._limit}, self._limit
                )
            except TimeoutError:
                await self._kill()
                raise CannotTransform(f"the expression took more than {self._limit:g} s and was stopped") from None

    async def close(self) -> None:
        """Ends the process."""
        await self._kill()

    async def _running_process(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._kill()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "penstock.workloads.actors.jsonata_worker",
            stdin=PIPE,
            stdout=PIPE,
            limit=LONGEST_LINE,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONSAFEPATH": "1"},
        )
        try:
            await self._request(self._process, {"expressions": self._sources}, START_SECONDS)
        except (TimeoutError, CannotTransform):
            await self._kill()
            raise
        return self._process

    async def _request(self, process: Process, request: dict[str, Any], seconds: float) -> Any:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process of the expressions has no pipes")
        try:
            async with asyncio.timeout(seconds):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
        except (ConnectionError, ValueError) as error:
            await self._kill()
            raise CannotTransform(f"the expression ended its process: {error}") from error
        except asyncio.CancelledError:
            # Otherwise a late response would be read as that of the next request.
            await self._kill()
            raise
        if not line:
            await self._kill()
            raise CannotTransform("the expression ended its process; it may have needed too much memory")
        response = json.loads(line)
        if "error" in response:
            raise CannotTransform(response["error"])
        return response["result"]

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
