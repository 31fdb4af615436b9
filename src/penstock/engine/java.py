"""Finding a Java that Spark and Kafka run on, or saying what was found instead."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.runtime.errors import UserError

SUPPORTED = (17, 21)
PROBE_SECONDS = 60.0
"""A machine that is busy needs long for a JVM, and has a Java all the same."""
HOW_TO_GET_IT = (
    "Install Java 17 or 21 (Debian/Ubuntu: apt install openjdk-17-jre-headless; Fedora: dnf install "
    "java-21-openjdk-headless; macOS: brew install openjdk@21) or point JAVA_HOME at one."
)

SPARK_MODULE = "jdk.incubator.vector"
"""Spark does not start without it, and runtimes that were cut down for another program lack it."""

COMPILE_LATER = (
    *("-XX:Tier4InvocationThreshold=20000", "-XX:Tier4MinInvocationThreshold=5000"),
    *("-XX:Tier4CompileThreshold=40000", "-XX:Tier4BackEdgeThreshold=120000"),
)
"""The optimising compiler begins with what has run four times as often as by default. At a start it otherwise takes up
to a fifth of the processors' time for code that is hardly used again; what handles events gets there within seconds."""

KAFKA_CLIENTS_AS_USUAL = (
    *("-XX:CompileCommand=quiet", "-XX:CompileCommand=CompileThresholdScaling,org/apache/kafka/*.*,0.25"),
)
"""Beside `COMPILE_LATER`: clients of Kafka are compiled when they would be by default. They do nothing at a start, and
later some things hundreds of times a second: often enough to matter, too seldom to be compiled late within minutes."""

_VERSION = re.compile(r'version "(?P<version>[^"]+)"')
_PLACES = ("/usr/lib/jvm/*", "/opt/homebrew/opt/openjdk*", "/usr/local/opt/openjdk*")
_PLACES_MAC = ("/Library/Java/JavaVirtualMachines/*/Contents/Home",)
_PLACES_HOME = (".sdkman/candidates/java/*", ".jdks/*")


@dataclass(frozen=True)
class Java:
    """A Java installation."""

    program: Path
    version: str
    major: int
    complete: bool = True
    """Whether it has what Spark asks for."""

    @property
    def home(self) -> Path:
        """What JAVA_HOME should be for it."""
        return self.program.resolve().parent.parent


def parse_version(output: str) -> tuple[str, int] | None:
    """Full and major version from what `java -version` prints; None if it says neither."""
    found = _VERSION.search(output)
    if found is None:
        return None
    version = found["version"]
    numbers = re.split(r"[._+-]", version)
    major = numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0]
    return (version, int(major)) if major.isdigit() else None


def find(environ: dict[str, str] | None = None) -> Java:
    """The Java to use: JAVA_HOME's, the PATH's, then the usual places. Raises UserError if none is supported."""
    seen: list[Java] = []
    for program in _candidates(dict(os.environ) if environ is None else environ):
        java = probe(program)
        if java is None:
            continue
        if java.major in SUPPORTED and java.complete:
            return java
        seen.append(java)
    if not seen:
        raise UserError("penstock needs Java 17 or 21 and found no Java.", HOW_TO_GET_IT)
    listed = ", ".join(_told(java) for java in seen)
    raise UserError(f"penstock needs Java 17 or 21 and found {listed}.", HOW_TO_GET_IT)


def probe(program: Path) -> Java | None:
    """The Java behind a program; None if it is none or does not run."""
    try:
        # Nearly every Java has the module: then one run tells everything.
        ran = _version(program, "--add-modules", SPARK_MODULE)
        with_module = ran.returncode == 0
        if not with_module:
            ran = _version(program)
    except (OSError, subprocess.TimeoutExpired):
        return None
    parsed = parse_version(ran.stderr + ran.stdout)
    if parsed is None:
        return None
    version, major = parsed
    return Java(program, version, major, complete=with_module or major not in SUPPORTED)


def _version(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), *options, "-version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)


def _told(java: Java) -> str:
    lacking = "" if java.complete else f" without the module {SPARK_MODULE} that Spark needs"
    return f"Java {java.version} ({java.program}){lacking}"


def _candidates(environ: dict[str, str]) -> Iterator[Path]:
    seen: set[Path] = set()
    for program in _places(environ):
        if program.is_file() and program.resolve() not in seen:
            seen.add(program.resolve())
            yield program


def _places(environ: dict[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(on_path)
    for pattern in (*_PLACES, *_PLACES_MAC):
        for place in sorted(Path("/").glob(pattern.lstrip("/"))):
            yield place / "bin" / "java"
    for pattern in _PLACES_HOME:
        for place in sorted(Path(environ.get("HOME", "/nonexistent")).glob(pattern)):
            yield place / "bin" / "java"
