"""What the modules of penstock have in place of `time`, `threading` and `queue`: the clock and threads of the machine.

They are as the real ones, as far as penstock uses these. What it does with them is not known here.
"""

from __future__ import annotations

import importlib
import pkgutil
import queue
import sys
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, tzinfo
from typing import Any

from tests.simulation.sim_machine import PROCESS, Strand, current, pause, wait

PACKAGES = ("contract", "controllers", "dispatcher", "kafka", "router")
"""Of penstock: all their modules are imported at once, so that none of them is later, with the real clock."""


class Event:
    """As `threading.Event`."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: deque[Strand] = deque()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        if self._set:
            return
        self._set = True
        process = PROCESS.get()
        for thread in (*self._waiting, *(() if process is None else process.polling)):
            thread.wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else current().now + timeout
        while not self._set:
            left = None if until is None else until - current().now
            if left is not None and left <= 0:
                break
            wait(self._waiting, left)
        return self._set


class Semaphore:
    """As `threading.Semaphore`, and as `Lock`."""

    def __init__(self, value: int = 1) -> None:
        self._left = value
        self._waiting: deque[Strand] = deque()

    def acquire(self) -> bool:
        while not self._left:
            wait(self._waiting, None)
        self._left -= 1
        return True

    def release(self) -> None:
        self._left += 1
        if self._waiting:
            self._waiting[0].wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """As `threading.Thread`."""

    ident = 0

    def __init__(self, target: Callable[[], None], name: str = "", daemon: bool = True) -> None:
        self._strand, self._started = Strand(target, name), False
        self._waiting: deque[Strand] = deque()

    def start(self) -> None:
        self._started = True
        self.ident = id(self)
        self._strand.when_done(self._ended)
        self._strand.start()

    def is_alive(self) -> bool:
        return self._started and not self._strand.done

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive():
            wait(self._waiting, timeout)

    def _ended(self) -> None:
        for thread in self._waiting:
            thread.wake()


class SimpleQueue:
    """As `queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[Strand] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiting:
            self._waiting[0].wake()

    def get(self, timeout: float | None = None) -> Any:
        if not self._items:
            wait(self._waiting, timeout)
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class Time:
    """As the module `time`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return current().wall

    def time_ns(self) -> int:
        return int(current().wall * 1e9)

    def monotonic(self) -> float:
        return current().loop.now

    perf_counter = monotonic

    def clock_gettime(self, _: int) -> float:
        return current().loop.now

    def sleep(self, seconds: float) -> None:
        pause(seconds)


class DateTime(datetime):
    """As `datetime`."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> DateTime:
        return cls.fromtimestamp(current().wall, tz)


CLOCK = Time()
CLOCKS: Mapping[object, object] = {
    time.time: CLOCK.time,
    time.monotonic: CLOCK.monotonic,
    time.perf_counter: CLOCK.monotonic,
}
REPLACED: Mapping[int, object] = {
    id(time): CLOCK,
    id(threading): types.SimpleNamespace(Event=Event, Semaphore=Semaphore, Lock=Semaphore, Thread=Thread),
    id(queue): types.SimpleNamespace(SimpleQueue=SimpleQueue, Empty=queue.Empty),
    id(datetime): DateTime,
}


def install() -> None:
    """Has the modules of penstock use what is here, for good."""
    for package in PACKAGES:
        folder = importlib.import_module(f"penstock.{package}").__path__
        for found in pkgutil.walk_packages(folder, f"penstock.{package}."):
            importlib.import_module(found.name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "penstock":
            for attribute, value in list(vars(module).items()):
                if id(value) in REPLACED:
                    setattr(module, attribute, REPLACED[id(value)])
                for function in _functions(value):
                    _replace_defaults(function)


def _functions(value: object) -> Iterator[types.FunctionType]:
    """A function of penstock's, or those of a class."""
    for one in vars(value).values() if isinstance(value, type) else [value]:
        if isinstance(one, types.FunctionType) and one.__module__.startswith("penstock"):
            yield one


def _replace_defaults(function: types.FunctionType) -> None:
    """Where a clock is what an argument is by default."""

    def replaced(value: Any) -> Any:
        return CLOCKS.get(value, value) if isinstance(value, types.BuiltinFunctionType) else value

    if function.__defaults__:
        function.__defaults__ = tuple(map(replaced, function.__defaults__))
    if function.__kwdefaults__:
        function.__kwdefaults__ = {name: replaced(value) for name, value in function.__kwdefaults__.items()}
