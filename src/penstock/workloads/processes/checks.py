"""Asking a container: by HTTP, by connecting to it, or by a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError

USER_AGENT = "kube-probe/1.34"
MOST_OUTPUT = 10 * 1024


async def http_get(client: Client, action: Mapping[str, Any], host: str, port: int, seconds: float) -> str | None:
    """None for an answer from 200 to 399, else what went wrong."""
    scheme, path = str(action.get("scheme") or "HTTP").lower(), str(action.get("path") or "/")
    url = f"{scheme}://{action.get('host') or host}:{port}{path if path.startswith('/') else f'/{path}'}"
    request = client.get(url).header("User-Agent", USER_AGENT).timeout(timedelta(seconds=seconds))
    for header in action.get("httpHeaders") or ():
        request = request.header(header["name"], str(header.get("value") or ""))
    try:
        answer = await request.build().send()
    except PyreqwestError as error:
        return f'Get "{url}": {error}'
    return None if 200 <= answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status}"


async def connect(host: str, port: int, seconds: float) -> str | None:
    """None where somebody accepts the connection."""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"dial tcp {host}:{port}: i/o timeout"
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"dial tcp {host}:{port}: connect: {reason.lower()}"
    writer.close()
    return None


async def execute(command: Sequence[str], env: Mapping[str, str], folder: Path, seconds: float) -> str | None:
    """None where the command ends with 0."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f'exec: "{command[0]}": {(error.strerror or str(error)).lower()}'
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"command timed out: {' '.join(command)!r} timed out after {seconds:g}s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return None if process.returncode == 0 else output[:MOST_OUTPUT].decode(errors="replace")
