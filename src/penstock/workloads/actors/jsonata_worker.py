"""A process that evaluates JSONata: one line of JSON in, one line out.

It is a separate process because an expression may run for ever or use all memory: it can be killed at any time and has
a memory limit. It ends with its parent, during an evaluation by an alarm."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from jsonata import Jsonata  # type: ignore[import-untyped]  # it has annotations, but does not say so

MEMORY_BYTES = 512 * 1024 * 1024


def main() -> None:
    """The first request has all expressions by name; each further one has a name and an input."""
    with contextlib.suppress(ValueError, OSError):  # not supported on all systems
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    expressions: dict[str, Jsonata] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "expressions" in request:
            _write_line(_compile(request["expressions"], expressions))
        else:
            signal.setitimer(signal.ITIMER_REAL, request["seconds"])
            result = _outcome(partial(expressions[request["name"]].evaluate, request["input"]))
            signal.setitimer(signal.ITIMER_REAL, 0)
            _write_line(result)


def _compile(sources: dict[str, str], expressions: dict[str, Jsonata]) -> dict[str, Any]:
    for name, source in sources.items():
        outcome = _outcome(partial(Jsonata, source))
        if "error" in outcome:
            return {"error": f"{name}: {outcome['error']}"}
        expressions[name] = outcome["result"]
    return {"result": True}


def _outcome(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except RecursionError:
        return {"error": "the expression calls itself too deeply"}
    except MemoryError:
        return {"error": "the expression needs too much memory"}
    except Exception as error:  # the library raises many types of errors for invalid expressions
        return {"error": str(error) or type(error).__name__}


def _write_line(result: dict[str, Any]) -> None:
    try:
        text = json.dumps(result)
    except (TypeError, ValueError, MemoryError, RecursionError) as error:
        text = json.dumps({"error": f"the result is not JSON: {error}"})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
