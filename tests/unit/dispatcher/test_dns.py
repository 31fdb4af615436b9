"""Looking names up: shared while it lasts, and a name that hangs holds nobody else up."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable

import pytest

from penstock.contract.attempts import FailureCause
from penstock.destinations import Destinations
from penstock.dispatcher.http import dns
from penstock.dispatcher.http.address import Origin
from penstock.dispatcher.http.dns import LOOKUPS, SLOW_LOOKUPS, Resolver, system_lookup
from penstock.dispatcher.http.outcome import Withheld
from penstock.dispatcher.http.pool import Pool
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

FAILURES = {
    "again": socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    "fails": socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"),
    "files": OSError(errno.EMFILE, "Too many open files"),
}


class Names:
    """Names that the test answers for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hanging: set[str] = set()
        """Names at work, of those that hang."""
        self.answer = threading.Event()

    def look_up(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith("hangs"):
            self.hanging.add(host)
            self.answer.wait(60)
            self.hanging.discard(host)
        if host == "unknown":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        if host in FAILURES:
            raise FAILURES[host]
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


@pytest.mark.parametrize("host", FAILURES)
async def test_a_failure_of_dns_is_not_taken_for_a_name_that_does_not_exist(host: str) -> None:
    resolver = Resolver(Names().look_up)
    with pytest.raises(Withheld, match=f"the address of {host} cannot be looked up") as problem:
        await resolver.addresses(host)
    assert problem.value.cause is FailureCause.DNS_UNAVAILABLE
    resolver.close()


def test_a_name_that_never_exists_is_not_found_whether_or_not_there_is_dns() -> None:
    for host in ("nobody.invalid", "nobody.invalid."):
        with pytest.raises(socket.gaierror) as problem:
            system_lookup(host)
        assert problem.value.errno == socket.EAI_NONAME


async def seen(condition: Callable[[], bool]) -> None:
    """What other threads do takes as long as it takes."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # threads have no event for it
            await asyncio.sleep(0.001)


async def withheld(resolver: Resolver, host: str) -> bool:
    try:
        await resolver.addresses(host)
    except Withheld:
        return True
    return False


async def test_many_names_that_hang_leave_room_for_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "SLOW_SECONDS", 0.01)
    names = Names()
    resolver = Resolver(names.look_up)
    hosts = [f"hangs{number}" for number in range(2 * LOOKUPS)]
    first = [asyncio.create_task(resolver.addresses(host)) for host in hosts]
    await seen(lambda: len(names.hanging) == len(hosts))
    assert await resolver.addresses("healthy") == ["address of healthy"]

    await seen(lambda: len(resolver._hanging) == len(hosts))
    # Deliveries that come later do not wait for what hangs, and no more of it is asked for than that.
    assert [await withheld(resolver, host) for host in hosts] == [True] * len(hosts)
    assert len(names.asked) == len(hosts) + 1
    names.answer.set()
    assert await asyncio.gather(*first) == [[f"address of {host}"] for host in hosts]
    resolver.close()


async def test_a_name_that_hung_before_has_few_threads_and_no_delivery_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dns, "SLOW_SECONDS", 0.01)
    names = Names()
    resolver = Resolver(names.look_up)
    hosts = [f"hangs{number}" for number in range(3 * SLOW_LOOKUPS)]
    resolver._hanging = dict.fromkeys(hosts)
    assert [await withheld(resolver, host) for host in hosts] == [True] * len(hosts)
    await seen(lambda: len(names.hanging) == SLOW_LOOKUPS)
    assert await resolver.addresses("healthy") == ["address of healthy"]
    assert len(names.asked) == SLOW_LOOKUPS + 1
    names.answer.set()
    await seen(lambda: not resolver._asked)
    assert len(names.asked) == len(hosts) + 1, "each had its turn"
    assert [await withheld(resolver, host) for host in hosts] == [False] * len(hosts)
    resolver.close()


async def test_addresses_are_used_again_for_a_while_and_until_nothing_answers_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    for _ in range(3):
        assert await resolver.addresses("a") == ["address of a"]
    assert names.asked == ["a"]
    resolver.forget("a")
    await resolver.addresses("a")
    monkeypatch.setattr(dns, "CACHE_SECONDS", 0.0)
    resolver.forget("a")
    await resolver.addresses("a")
    await resolver.addresses("a")
    assert names.asked == ["a"] * 4
    resolver.close()


async def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "REMEMBERED", 2)
    resolver = Resolver(Names().look_up)
    for host in ("a", "b", "c"):
        await resolver.addresses(host)
    assert list(resolver._found) == ["b", "c"]
    resolver.close()


async def test_a_look_up_that_takes_too_long_is_no_failure_of_the_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names()
    monkeypatch.setattr(dns, "system_lookup", names.look_up)
    pool = Pool(1024, Destinations(Settings()), TaskScope())
    with pytest.raises(Withheld, match=r"no address of hangs:80 within 0\.01 s") as problem:
        await pool.connect(Origin("hangs", 80, None, None), 0.01)
    assert problem.value.cause is FailureCause.DNS_UNAVAILABLE
    names.answer.set()
    pool.close()


async def test_a_name_is_asked_for_again_after_its_answer() -> None:
    names = Names()
    resolver = Resolver(names.look_up)
    for _ in range(2):
        with pytest.raises(socket.gaierror, match="no such name"):
            await resolver.addresses("unknown")
    assert names.asked == ["unknown", "unknown"]
    resolver.close()
