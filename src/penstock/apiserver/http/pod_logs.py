"""Logs of Pods, for `kubectl logs`: read from the files that the node writes, and followed while the Pod runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from starlette.responses import StreamingResponse

from penstock.apiserver import errors
from penstock.apiserver.http.requests import whole_number
from penstock.kube.kinds import Obj
from penstock.runtime.files import LeadsOutside, path_below

CHUNK = 64 * 1024
POLL_SECONDS = 0.2


def respond(folder: Path, pod: Obj, query: Mapping[str, str], current: Callable[[], Obj | None]) -> StreamingResponse:
    """The log of a container as text; with `follow` until the container has terminated."""
    container = chosen_container(pod, query.get("container", ""))
    name = pod["metadata"]["name"]
    previous = query.get("previous") == "true"
    try:
        path = path_below(folder, f"{container}{'.previous' if previous else ''}.log")
    except LeadsOutside:
        raise errors.bad_request(f"container {container} is not valid for pod {name}") from None
    if previous:
        if not path.exists():
            raise errors.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    elif not path.exists() and (reason := waiting_reason(pod, container)):
        raise errors.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    tail = whole_number(query, "tailLines")
    limit = whole_number(query, "limitBytes")
    follow = query.get("follow") == "true" and not previous
    lines = _read(path, tail, limit, (lambda: may_write(current(), container)) if follow else None)
    return StreamingResponse(lines, media_type="text/plain")


def chosen_container(pod: Obj, wanted: str) -> str:
    """The named container, or the only one. Raises 400."""
    spec = pod.get("spec") or {}
    names = [one["name"] for one in spec.get("containers") or ()]
    inits = [one["name"] for one in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*names, *inits):
            raise errors.bad_request(f"container {wanted} is not valid for pod {pod['metadata']['name']}")
        return wanted
    if len(names) == 1 and not inits:
        return str(names[0])
    others = f" or one of the init containers: [{' '.join(inits)}]" if inits else ""
    raise errors.bad_request(
        f"a container name must be specified for pod {pod['metadata']['name']}, "
        f"choose one of: [{' '.join(names)}]{others}"
    )


def waiting_reason(pod: Obj, container: str) -> str | None:
    """Why the container has not been started yet; None where it has."""
    state = (_status(pod, container) or {}).get("state") or {"waiting": {"reason": "ContainerCreating"}}
    return str(state["waiting"].get("reason") or "ContainerCreating") if "waiting" in state else None


def may_write(pod: Obj | None, container: str) -> bool:
    """Whether the container may still write to its log."""
    if pod is None or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return "terminated" not in ((_status(pod, container) or {}).get("state") or {})


def _status(pod: Obj, container: str) -> Obj | None:
    status = pod.get("status") or {}
    known = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((one for one in known if one["name"] == container), None)


async def _read(
    path: Path, tail: int | None, limit: int | None, running: Callable[[], bool] | None
) -> AsyncIterator[bytes]:
    position = await asyncio.to_thread(_tail_position, path, tail) if tail is not None else 0
    left = limit
    while True:
        # Checked before reading, so that everything written until the Pod ends is read.
        last = running is None or not running()
        while True:
            chunk, position = await asyncio.to_thread(_chunk, path, position)
            if not chunk:
                break
            if left is not None:
                chunk, left = chunk[:left], left - len(chunk)
            yield chunk
            if left is not None and left <= 0:
                return
        if last:
            return
        await asyncio.sleep(POLL_SECONDS)


def _chunk(path: Path, position: int) -> tuple[bytes, int]:
    """The next chunk of the log, and the position after it. A log that became shorter has been started again."""
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) < position:
                position = 0
            file.seek(position)
            chunk = file.read(CHUNK)
    except FileNotFoundError:
        return b"", position
    return chunk, position + len(chunk)


def _tail_position(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin, found by reading backwards."""
    try:
        with path.open("rb") as file:
            end = position = file.seek(0, 2)
            # A newline at the very end closes the last line instead of opening another.
            wanted, first = lines, True
            while position > 0:
                start = max(0, position - CHUNK)
                file.seek(start)
                block = file.read(position - start)
                for index in range(len(block) - 1, -1, -1):
                    if block[index] != 0x0A or (first and start + index == end - 1):
                        continue
                    wanted -= 1
                    if wanted <= 0:
                        return start + index + 1 if lines else end
                position = start
            return 0 if lines else end
    except FileNotFoundError:
        return 0
