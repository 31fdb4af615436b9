"""A list and what follows it, whatever happens to the watch in between."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence

import pytest

from penstock.kube.client import Listing
from penstock.kube.errors import Forbidden, Gone, KubeError, NotFound, Unavailable
from penstock.kube.kinds import Obj
from penstock.kube.list_watch import LONGEST_PAUSE_SECONDS, Changed, Interrupted, Listed, list_and_watch

Step = Obj | KubeError


class End(Exception):
    """The API has nothing more to say in this test."""


def obj(version: int) -> Obj:
    return {"metadata": {"name": f"o{version}", "resourceVersion": str(version)}}


class Api:
    """Gives lists and watches as a test says, and notes which were asked for."""

    def __init__(self, lists: Sequence[list[Obj] | KubeError], watches: Sequence[Sequence[Step] | KubeError]) -> None:
        self._lists, self._watches = list(lists), list(watches)
        self.asked: list[str] = []

    async def list(self) -> Listing:
        await asyncio.sleep(0)
        self.asked.append("list")
        step = self._lists.pop(0)
        if isinstance(step, KubeError):
            raise step
        return Listing(step, "10")

    @contextlib.asynccontextmanager
    async def watch(self, version: str) -> AsyncIterator[AsyncIterator[tuple[str, Obj]]]:
        self.asked.append(f"watch {version}")
        if not self._watches:
            raise End
        step = self._watches.pop(0)
        if isinstance(step, KubeError):
            raise step
        yield self._changes(step)

    async def _changes(self, steps: Sequence[Step]) -> AsyncIterator[tuple[str, Obj]]:
        for step in steps:
            if isinstance(step, KubeError):
                raise step
            yield "MODIFIED", step


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    pause = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
        await pause(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(random, "uniform", lambda _low, high: high)
    return slept


async def news(api: Api) -> list[Listed | Changed | Interrupted]:
    seen: list[Listed | Changed | Interrupted] = []
    following = list_and_watch(api.list, api.watch)
    with contextlib.suppress(End):
        while True:
            seen.append(await anext(following))
    return seen


async def test_a_watch_that_ends_or_breaks_goes_on_where_it_ended() -> None:
    lost = Unavailable("connection lost")
    api = Api([[obj(9)]], [[obj(11), obj(12)], [obj(13), lost], []])
    assert await news(api) == [
        Listed([obj(9)], "10"),
        Changed("MODIFIED", obj(11)),
        Changed("MODIFIED", obj(12)),
        Changed("MODIFIED", obj(13)),
        Interrupted(lost),
    ]
    assert api.asked == ["list", "watch 10", "watch 12", "watch 13", "watch 13"]


async def test_a_version_that_is_too_old_leads_to_a_new_list_and_is_not_told_as_a_failure() -> None:
    api = Api([[obj(9)], [obj(10)]], [Gone("too old"), [obj(11), Gone("too old")]])
    api._lists.append([])
    assert await news(api) == [
        Listed([obj(9)], "10"),
        Listed([obj(10)], "10"),
        Changed("MODIFIED", obj(11)),
        Listed([], "10"),
    ]


@pytest.mark.parametrize("error", [NotFound("no such kind"), Forbidden("you may not")])
async def test_a_kind_that_is_not_shown_is_listed_again(error: KubeError) -> None:
    api = Api([[obj(9)], error, []], [error])
    assert await news(api) == [Listed([obj(9)], "10"), Interrupted(error), Interrupted(error), Listed([], "10")]
    assert api.asked == ["list", "watch 10", "list", "list", "watch 10"]


async def test_pauses_grow_while_the_api_does_not_answer_and_are_short_again_after_it_did(pauses: list[float]) -> None:
    away = [Unavailable("away")] * 7
    await news(Api([*away, []], [*away, [], Unavailable("away")]))
    growing = [0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    assert pauses == [*growing, *growing, 0.2]
