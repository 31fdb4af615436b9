"""Looking names up: shared while it lasts, and a name that hangs holds nobody else up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.dispatcher.http.dns import Resolver


class Names:
    """Names that the test answers for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = threading.Event()

    def look_up(self, host: str) -> list[str]:
        self.asked.append(host)
        if host == "hangs":
            self.answer.wait(10)
        if host == "unknown":
            raise OSError("no such name")
        return [f"address of {host}"]


async def test_an_address_is_not_looked_up() -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    assert await resolver.addresses("127.0.0.1") == ["127.0.0.1"]
    assert await resolver.addresses("::1") == ["::1"]
    assert names.asked == []
    resolver.close()


async def test_a_name_that_hangs_is_asked_once_and_holds_nobody_up() -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    waiting = [asyncio.create_task(resolver.addresses("hangs")) for _ in range(200)]
    await asyncio.sleep(0)
    assert await resolver.addresses("other") == ["address of other"]
    waiting[0].cancel()
    names.answer.set()
    assert await asyncio.gather(*waiting[1:]) == [["address of hangs"]] * 199
    assert names.asked.count("hangs") == 1
    resolver.close()


async def test_a_name_is_asked_for_again_after_its_answer() -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    for _ in range(2):
        with pytest.raises(OSError, match="no such name"):
            await resolver.addresses("unknown")
    assert names.asked == ["unknown", "unknown"]
    resolver.close()
