"""Whether an object already is as it is wanted, although the server has filled in defaults."""

from __future__ import annotations


def covers(held: object, wanted: object) -> bool:
    """Whether all that is wanted is there; what else is there counts not. Lists are compared item by item."""
    if isinstance(wanted, dict) and isinstance(held, dict):
        return all(name in held and covers(held[name], value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(held, list):
        return len(wanted) == len(held) and all(map(covers, held, wanted))
    return held == wanted
