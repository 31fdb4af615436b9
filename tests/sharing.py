"""A plugin of pytest (`-p tests.sharing`) for runs in several processes: which tests run in the same one.

What is expensive (a stack, a Kafka, a Spark session) is started once per process, by the first test that asks. So tests
that share it form a group, and one process runs a group. Most of a test on real things is waiting: more processes than
processors pay off.

What fails is named at once, in a line: a run takes minutes, and who reads along need not wait for its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # xdist has no annotations

GROUPS = {
    "tests/conformance/*": "stack",
    "tests/integration/engine/test_getting_started.py": "stack",
    "tests/integration/engine/test_stack.py": "stack",
    "tests/integration/examples/*": "stack",
    "tests/integration/operate/*": "stack",
    "tests/integration/isolation/test_other_account.py": "stack",
    "tests/integration/workloads/test_services.py": "stack",
    "tests/integration/workloads/test_controllers.py": "stack",
    "tests/integration/workloads/test_encrypted.py": "stack",
    "tests/integration/workloads/test_guarded.py": "stack",
    "tests/integration/sources/*": "stack",
    "tests/integration/history/*": "history",
    "tests/integration/isolation/*": "isolation",
    "tests/integration/faults/test_chaos.py": "chaos",
    "tests/integration/faults/*": "faults",
    "tests/integration/dispatcher/*": "dispatcher",
    "tests/integration/router/test_live.py": "router live",
    "tests/integration/router/*": "router",
    "tests/integration/filters/*": "filters",
    "tests/integration/backtest/*": "filters",
    "tests/integration/ingress/*": "ingress",
    "tests/integration/apiserver/*": "apiserver",
    "tests/integration/engine/test_given_kafka.py": "given Kafka",
    "tests/integration/kafka/*": "kafka",
    "tests/integration/workloads/*": "workloads",
    "tests/integration/engine/test_jars.py": "jars",
    "tests/integration/controllers/*": "controllers",
    "tests/integration/engine/test_topics_command.py": "topics command",
}
"""By file; the first pattern counts. The longest come first: no process should be left alone with one at the end.

The history comes so early because it reads everything that the tests before it in its process have sent.

Other folders are a group each, but in these every file is one:
"""
BY_FILE = ("tests/unit/", "tests/integration/engine/")


def group(nodeid: str) -> str:
    """The group of a test."""
    path = nodeid.partition("::")[0]
    for pattern, name in GROUPS.items():
        if fnmatchcase(path, pattern):
            return name
    return path if path.startswith(BY_FILE) else path.rpartition("/")[0]


def rank(name: str) -> int:
    """Sorts groups so that the longest come first; the others stay in their order."""
    order = list(dict.fromkeys(GROUPS.values()))
    return order.index(name) if name in order else len(order)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands whole groups to processes, in the order of the tests."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the groups."""
    items.sort(key=lambda item: rank(group(item.nodeid)))


class FailuresAtOnce:
    """Names each test that fails when it fails, and the process it ran in."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if not report.failed:
            return
        process = getattr(getattr(report, "node", None), "gateway", None)
        where = f" on {process.id}" if process is not None else ""
        terminal.write_line("")
        terminal.write_line(f"FAILED in its {report.when}{where}: {report.nodeid}", red=True)
        message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
        for line in message.splitlines()[:5]:
            terminal.write_line(f"  {line[:300]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a property reaches is measured where plain tests reach it: its examples would take thrice as long, and show
    no line more. (The marker `no_cover` has no effect in the processes of a run.)"""
    tracer = sys.gettrace()
    if tracer is None or item.get_closest_marker("hypothesis") is None:
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


def pytest_configure(config: pytest.Config) -> None:
    """Failures are named where the terminal is: not in the processes that run the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(config))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    """Tests that share something expensive run in one process."""
    return GroupScheduling(config, log)
