"""The machine that a history runs on: one clock, processes, and threads of which one runs at a time.

Everything happens on one event loop whose time passes only when all wait. A process is whatever was started in its
context: tasks, callbacks, timers and threads. Killed, nothing of it runs any more; frozen, it runs when it wakes. A
thread is a real one, but it runs only while the loop waits for it, from one place where it waits to the next. So a
history depends on nothing but its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, ClassVar, NoReturn

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""Which process runs."""

WALL = 1_700_000_000.0
"""Unix time when a history begins."""
BEGINS = 1000.0
"""The monotonic clock then."""
SHORTEST_WAIT_SECONDS = 0.0001
"""However short a wait, it takes time: what is left of a time that is over may be a rounding error."""
MOST_TURNS = 100_000
"""Of the loop within one moment."""


class Killed(BaseException):
    """Ends a thread of a process that is gone."""


class EndedItself(Exception):
    """A process has ended itself at once, as `os._exit` does."""


class Stuck(AssertionError):
    """The history does not go on."""


class Process:
    """One that was started: it runs, is frozen, or has ended."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name, self.began = machine, name, machine.now
        self.ended = self.frozen = self.killed = False
        self.problem: BaseException | None = None
        """What it ended by, if by itself and not well."""
        self.at_end: list[Callable[[Process], object]] = []
        """Called when it has ended, whatever ended it."""
        self.polling: deque[Strand] = deque()
        """Threads of it that wait until there is something to read, or until it sets an event."""
        self.context: Context = machine.outside.copy()
        self.context.run(PROCESS.set, self)
        self.threads: list[Strand] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.held: list[tuple[Callable[..., object], tuple[Any, ...], Context]] = []
        """What would have run while it is frozen."""

    def kill(self) -> None:
        """It ends here and now, with nothing finished."""
        self.end(killed=True)

    def end(self, problem: BaseException | None = None, *, killed: bool = False) -> None:
        """It has ended, by itself unless it was killed."""
        if not self.ended:
            self.ended, self.frozen, self.killed, self.problem = True, False, killed, problem
            self.held.clear()
            self.machine.loop.call_soon(self._bury, context=self.machine.outside)

    def freeze(self, seconds: float) -> None:
        """It does nothing for a while, and does not notice."""
        if not self.ended and not self.frozen:
            self.frozen = True
            self.machine.later(seconds, self.wake)

    def wake(self) -> None:
        """The freeze is over."""
        if self.frozen:
            self.frozen = False
            held, self.held = self.held, []
            for callback, arguments, context in held:
                self.machine.loop.call_soon(callback, *arguments, context=context)

    def later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Calls it later, as this process."""
        if not self.ended:
            self.context.copy().run(self.machine.loop.call_later, seconds, callback, *arguments)

    def _bury(self) -> None:
        for thread in self.threads:
            thread.unwind()
        for task in self.tasks:
            with contextlib.suppress(BaseException):  # how it ends matters to nothing any more
                self.context.run(task.get_coro().close)
        self.threads.clear()
        self.tasks.clear()
        for call in self.at_end:
            call(self)


class Loop(asyncio.SelectorEventLoop):
    """Where the real loop would wait for its next timer, this one moves its clock to it."""

    def __init__(self) -> None:
        self.now = BEGINS
        super().__init__(_Skipping(self))

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]  # not so exact
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(_in_process, callback, args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # only one thread runs at a time

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, _in_process, callback, args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """In a thread of its own, however many there are."""
        answer: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        Strand(work, "executor").start()
        return answer


class _Skipping(selectors.SelectSelector):
    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0
        """Since time passed last."""

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck("everything waits for what will never happen")
        if timeout > 0:
            self._loop.now += timeout
            self._turns = 0
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise Stuck("something goes on for ever without waiting")
        return []


def _in_process(callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    """Calls it as the process that it belongs to, if that runs."""
    process = PROCESS.get()
    if process is None or not (process.ended or process.frozen):
        callback(*arguments)
    elif process.frozen:
        process.held.append((callback, arguments, copy_context()))


class _Task(asyncio.Task[Any]):
    """A task whose place in a set depends on nothing but the order in which tasks were made."""

    made = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        _Task.made += 1
        self._number = _Task.made
        super().__init__(*arguments, **options)
        self._log_destroy_pending = False  # a process that was killed has not finished them

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class Machine:
    """The one that everything of a history runs on."""

    running: ClassVar[Machine | None] = None

    def __init__(self, seed: object) -> None:
        self.seed = seed
        self.outside = copy_context()
        """Of what belongs to no process."""
        self.loop = Loop()
        self.loop.set_task_factory(self._make_task)
        self.loop.set_exception_handler(self._note_defect)
        self.set_by = 0.0
        """Seconds by which the clock on the wall was set forward since the beginning."""
        self.defects: list[str] = []
        """Exceptions that nothing was there to catch."""
        self.switches = 0
        """How often a thread has run for a while."""
        self.thread: Strand | None = None
        """The one that runs; None while the loop does."""
        self.kafka: Any = None
        """What the clients of Kafka are connected to."""
        self.stack: Any = None
        """What runs on it."""
        self._idle: list[_Carrier] = []
        _Task.made = 0

    @property
    def now(self) -> float:
        """Seconds since the history began."""
        return self.loop.now - BEGINS

    @property
    def wall(self) -> float:
        """Unix time, by the clock on the wall."""
        return WALL + self.now + self.set_by

    def chance(self, name: str) -> random.Random:
        """Random numbers of one thing's own: what others draw does not change them."""
        return random.Random(f"{self.seed}/{name}")

    def later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Calls it later, as what belongs to no process."""
        self.loop.call_later(seconds, callback, *arguments, context=self.outside.copy())

    def start(self, name: str, main: Callable[[], Coroutine[Any, Any, object]]) -> Process:
        """Starts a process."""
        process = Process(self, name)

        async def run() -> None:
            try:
                await main()
            except Exception as error:
                process.end(error)
            else:
                process.end()

        process.context.run(self.loop.create_task, run())
        return process

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        """Runs a history to its end, as what belongs to no process."""
        Machine.running = self
        random.seed(f"{self.seed}/penstock")  # for what penstock itself draws
        try:
            return self.loop.run_until_complete(story)
        finally:
            Machine.running = None
            for carrier in self._idle:
                carrier.end()
            self.loop.close()

    def switch_to(self, thread: Strand) -> None:
        """Lets a thread run until it waits. Called on the loop."""
        self.switches += 1
        self.thread = thread
        thread.run_on()
        self.thread = None

    def carrier(self) -> _Carrier:
        """A thread of the system that has nothing to do."""
        return self._idle.pop() if self._idle else _Carrier()

    def put_back(self, carrier: _Carrier) -> None:
        """It has nothing to do again."""
        self._idle.append(carrier)

    def _make_task(self, loop: Any, coroutine: Any, **options: Any) -> _Task:
        task = _Task(coroutine, loop=loop, **options)
        if (process := PROCESS.get()) is not None:
            if len(process.tasks) > 200:
                process.tasks = [one for one in process.tasks if not one.done()]
            process.tasks.append(task)
        return task

    def _note_defect(self, _: object, context: dict[str, Any]) -> None:
        """A callback has raised. What asyncio says of tasks comes when memory is freed, which is at any time."""
        error = context.get("exception")
        if "handle" in context and not isinstance(error, Killed):
            self.defects.append(f"{context.get('message')}: {error!r}")


class Strand:
    """A thread of a process."""

    def __init__(self, body: Callable[[], None], name: str) -> None:
        self.machine, self.name, self.done = current(), name, False
        self._body, self._process, self._context = body, PROCESS.get(), copy_context()
        self._waits = 0
        """Counts its waits and their ends, so that nothing ends a later one."""
        self._woken = False
        self._carrier: _Carrier | None = None
        self._at_end: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begins."""
        if (process := self._process) is not None:
            if process.ended:
                raise Killed
            if len(process.threads) > 50:
                process.threads = [one for one in process.threads if not one.done]
            process.threads.append(self)
        self.machine.loop.call_soon(self.machine.switch_to, self, context=self._context.copy())

    def run_on(self) -> None:
        """Runs until it waits or ends. Called on the loop."""
        if self.done:
            return
        if self._carrier is None:
            self._carrier = self.machine.carrier()
            self._carrier.begin(self._run)
        else:
            self._carrier.go_on()
        if self.done:
            self.machine.put_back(self._carrier)
            for call in self._at_end:
                call()

    def unwind(self) -> None:
        """Its process has ended. Called on the loop."""
        if self._carrier is not None and not self.done:
            self.machine.switch_to(self)
        self.done = True

    def wait(self, seconds: float | None) -> bool:
        """Waits, in this thread, until it is woken; false if the time is over first."""
        self._check_killed()
        self._waits += 1
        self._woken = False
        timer = None
        if seconds is not None:
            seconds = max(SHORTEST_WAIT_SECONDS, seconds)
            timer = self.machine.loop.call_later(seconds, self._go_on, self._waits, False)
        if self._carrier is not None:
            self._carrier.wait()
        self._check_killed()
        if timer is not None:
            timer.cancel()
        return self._woken

    def wake(self) -> None:
        """Ends its wait."""
        self.machine.loop.call_soon(self._go_on, self._waits, True, context=self._context.copy())

    def when_done(self, call: Callable[[], None]) -> None:
        """Calls it at the end of the thread."""
        self._at_end.append(call)

    def _check_killed(self) -> None:
        if self._process is not None and self._process.ended:
            raise Killed

    def _go_on(self, wait: int, woken: bool) -> None:
        if wait == self._waits and not self.done:
            self._waits += 1
            self._woken = woken
            self.machine.switch_to(self)

    def _run(self) -> None:
        try:
            self._context.run(self._body)
        except Killed:
            pass
        except BaseException as error:
            self.machine.defects.append(f"the thread {self.name} ended by {error!r}")
        self.done = True


class _Carrier:
    """A real thread that carries one thread of the simulation after the other."""

    def __init__(self) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._body: Callable[[], None] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, body: Callable[[], None]) -> None:
        """Runs the body until it waits or ends. Called on the loop."""
        self._body = body
        self.go_on()

    def go_on(self) -> None:
        """The body goes on until it waits again or ends. Called on the loop."""
        self._go.release()
        self._back.acquire()

    def wait(self) -> None:
        """Lets the loop go on. Called by the body."""
        self._back.release()
        self._go.acquire()

    def end(self) -> None:
        """Ends the thread."""
        self._body = None
        self._go.release()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self._body is None:
                return
            self._body()
            self._back.release()


def current() -> Machine:
    """The machine of the history that runs."""
    if Machine.running is None:
        raise RuntimeError("no history runs")
    return Machine.running


def living_process() -> Process | None:
    """The process that runs; None where it has ended, and for what belongs to none."""
    process = PROCESS.get()
    return None if process is None or process.ended else process


def end_this_process() -> NoReturn:
    """As `os._exit` does."""
    if (process := PROCESS.get()) is not None:
        process.end(EndedItself())
    raise Killed


def wait(waiting: deque[Strand], seconds: float | None) -> bool:
    """The thread that runs waits among those that wait for the same; false if the time is over first."""
    thread = current().thread
    if thread is None:
        raise AssertionError("the event loop must not wait")
    waiting.append(thread)
    try:
        return thread.wait(seconds)
    finally:
        with contextlib.suppress(ValueError):
            waiting.remove(thread)


def pause(seconds: float) -> None:
    """The thread that runs waits so long."""
    wait(deque(), seconds)
