"""Finds a Java installation that Spark and Kafka support."""

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
"""Generous: on a busy machine a JVM takes long to start."""
HOW_TO_GET_IT = (
    "Install Java 17 or 21 (Debian/Ubuntu: apt install openjdk-17-jre-headless; Fedora: dnf install "
    "java-21-openjdk-headless; macOS: brew install openjdk@21) or point JAVA_HOME at one."
)

SPARK_MODULE = "jdk.incubator.vector"
"""Spark requires it; runtimes that were reduced with jlink for another program lack it."""

COMPILE_LATER = (
    *("-XX:Tier4InvocationThreshold=20000", "-XX:Tier4MinInvocationThreshold=5000"),
    *("-XX:Tier4CompileThreshold=40000", "-XX:Tier4BackEdgeThreshold=120000"),
)
"""Raises the thresholds of the optimizing compiler fourfold. With the defaults it takes up to a fifth of the CPU time
of a start for code that is hardly used again; code that handles events reaches the threshold within seconds."""

KAFKA_CLIENTS_AS_USUAL = (
    *("-XX:CompileCommand=quiet", "-XX:CompileCommand=CompileThresholdScaling,org/apache/kafka/*.*,0.25"),
)
"""Default thresholds for Kafka's clients, in addition to `COMPILE_LATER`: they run a few hundred times a second, too
rarely to reach the raised thresholds within minutes."""

_VERSION = re.compile(r'version "(?P<version>[^"]+)"')
_FOLDERS = ("/usr/lib/jvm/*", "/opt/homebrew/opt/openjdk*", "/usr/local/opt/openjdk*")
_FOLDERS_MAC = ("/Library/Java/JavaVirtualMachines/*/Contents/Home",)
_FOLDERS_HOME = (".sdkman/candidates/java/*", ".jdks/*")


@dataclass(frozen=True)
class Java:
    """A Java installation."""

    program: Path
    version: str
    major: int
    complete: bool = True
    """Whether it has the module that Spark requires."""

    @property
    def home(self) -> Path:
        """The value of JAVA_HOME for it."""
        return self.program.resolve().parent.parent


def parse_version(output: str) -> tuple[str, int] | None:
    """Full and major version from the output of `java -version`, or None."""
    found = _VERSION.search(output)
    if found is None:
        return None
    version = found["version"]
    numbers = re.split(r"[._+-]", version)
    major = numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0]
    return (version, int(major)) if major.isdigit() else None


def find_java(environ: dict[str, str] | None = None) -> Java:
    """The Java to use: of JAVA_HOME, of PATH, or of the usual folders. Raises UserError if none is supported."""
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
    listed = ", ".join(_described(java) for java in seen)
    raise UserError(f"penstock needs Java 17 or 21 and found {listed}.", HOW_TO_GET_IT)


def probe(program: Path) -> Java | None:
    """The Java installation of a program; None if it is not a Java or does not run."""
    try:
        # Nearly every Java has the module, so one run is usually enough.
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


def _described(java: Java) -> str:
    lacking = "" if java.complete else f" without the module {SPARK_MODULE} that Spark needs"
    return f"Java {java.version} ({java.program}){lacking}"


def _candidates(environ: dict[str, str]) -> Iterator[Path]:
    seen: set[Path] = set()
    for program in _programs(environ):
        if program.is_file() and program.resolve() not in seen:
            seen.add(program.resolve())
            yield program


def _programs(environ: dict[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(on_path)
    for pattern in (*_FOLDERS, *_FOLDERS_MAC):
        for folder in sorted(Path("/").glob(pattern.lstrip("/"))):
            yield folder / "bin" / "java"
    for pattern in _FOLDERS_HOME:
        for folder in sorted(Path(environ.get("HOME", "/nonexistent")).glob(pattern)):
            yield folder / "bin" / "java"
