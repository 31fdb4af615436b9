"""`python -m tools.upstream [--run REGEX]`: Knative's own end-to-end tests against a fresh stack."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from tools.chaos.stack import NotStarted, Stack
from tools.upstream import binaries, certificates, expectations, report
from tools.upstream.page import PAGE, publish
from tools.upstream.suite import NotListed, SuiteRun

EXPECTED = binaries.MODULE / "expectations.yaml"
FEATURES = binaries.MODULE / "config-features.yaml"
ENCRYPTED_FEATURES = binaries.MODULE / "config-features-tls.yaml"
ENCRYPTED = re.compile("TLS")
"""Tests of encrypted transport."""
GUARDED_FEATURES = binaries.MODULE / "config-features-oidc.yaml"
GUARDED = re.compile("OIDC|AuthZ")
"""Tests of who may send."""
ALL = "."
SHORT = (
    "TestBrokerWithDLQ",
    "TestBrokerWorkFlowWithTransformation",
    "TestChannelChain",
    "TestJobSinkSuccess",
    "TestMTChannelBrokerNewTriggerFilters",
    "TestPingSourceWithSinkURI",
    "TestSequence",
    "TestTriggerDefaulting",
)
"""One of each kind, for `make test`."""
STRAY_LINES = 10
"""What the suite printed outside its tests: why it ended early is among the last of it."""


def main() -> int:
    """1 if a test ended otherwise than expected; the logs are kept then. 2 if there could be no run."""
    parser = argparse.ArgumentParser(prog="tools.upstream", description=__doc__)
    parser.add_argument("--run", default=ALL, help="only tests that match this expression, as for go test -run")
    parser.add_argument("--short", action="store_const", dest="run", const=f"^({'|'.join(SHORT)})$", help="a selection")
    parser.add_argument("--needy", action="store_true", help="also tests that need what is not here")
    parser.add_argument("--folder", type=Path, default=Path("build/upstream"), help="for the binaries and the report")
    parser.add_argument("--publish", action="store_true", help=f"write the table into {PAGE} if all is as expected")
    parser.add_argument("--build", action="store_true", help="build the suite and run nothing")
    arguments = parser.parse_args()
    try:
        expected = expectations.load(EXPECTED)
        say("building the suite and the programs of its Pods (the first time takes minutes)")
        built = binaries.build(arguments.folder / "bin")
        if arguments.build:
            return 0
        silent = [] if arguments.needy else expectations.left_out(expected, arguments.run)
        folder = arguments.folder.absolute() / "run"
        began = time.monotonic()
        suite = uvloop.run(run(built, folder, arguments.run, silent))
    except (binaries.NotBuilt, expectations.BadExpectations, NotStarted, NotListed) as problem:
        say(str(problem))
        return 2
    listed = report.rows(expected, suite.ended, silent)
    page = report.markdown(listed, binaries.version(), (time.monotonic() - began) / 60)
    report.write(folder, listed, page, suite.ended, "".join(suite.stray))
    print(page)
    if wrong := expectations.differences(expected, suite.ended, arguments.run, silent):
        said = "".join(suite.stray).splitlines()[-STRAY_LINES:]
        say(
            "\n".join(["", *said, *wrong, f"NOT AS EXPECTED: output of the tests and the stack's logs are in {folder}"])
        )
        return 1
    if arguments.publish:
        publish(PAGE, "upstream", page)
    return 0


async def run(built: binaries.Binaries, folder: Path, selection: str, silent: Sequence[str]) -> SuiteRun:
    """The selected tests on a stack of their own, which is ended after them."""
    shutil.rmtree(folder, ignore_errors=True)
    stack = Stack(folder, settings=settings_file(built))
    suite = SuiteRun(built, stack.kubeconfig, folder, say)
    test, _, steps = selection.partition("/")
    try:
        say("starting a stack")
        await stack.start()
        await stack.ready()
        wanted = [name for name in await suite.tests(test) if name not in silent]
        async with certificates.issuing(stack.kubeconfig):
            for features, tests in by_features(wanted).items():
                turn_features_on(stack.kubeconfig, features)
                await suite.run(tests, steps)
    finally:
        await stack.stop()
    return suite


def by_features(tests: Sequence[str]) -> dict[Path, list[str]]:
    """The tests with the features that they are run with, as Knative runs them: those of TLS after the others, which
    know http only, and those of OIDC and EventPolicies last, since no sender of the others has a token."""
    groups: dict[Path, list[str]] = {FEATURES: [], ENCRYPTED_FEATURES: [], GUARDED_FEATURES: []}
    for test in tests:
        features = (
            GUARDED_FEATURES if GUARDED.search(test) else ENCRYPTED_FEATURES if ENCRYPTED.search(test) else FEATURES
        )
        groups[features].append(test)
    return {features: group for features, group in groups.items() if group}


def turn_features_on(kubeconfig: Path, features: Path) -> None:
    """The suite looks at them and leaves out the tests of those that are off."""
    apply = ["kubectl", "--kubeconfig", str(kubeconfig), "apply", "--server-side", "--force-conflicts", "-f"]
    subprocess.run([*apply, str(features)], check=True, stdout=subprocess.DEVNULL)


def settings_file(built: binaries.Binaries) -> str:
    """The stack's penstock.toml: which commands stand for the images of the tests."""
    lines = [f"{json.dumps(image)} = {json.dumps(command)}" for image, command in built.images().items()]
    return "\n".join(["[images]", *lines, ""])


def say(text: str) -> None:
    """Progress, on the terminal."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
