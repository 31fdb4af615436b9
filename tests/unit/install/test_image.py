"""The image: what its Containerfile copies is there, it runs as nobody, and Spark's executors start as Spark asks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IMAGE = ROOT / "deploy" / "image"
USER = "65532:65532"


@pytest.fixture
def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, each with its arguments in one line."""
    lines = [line for line in (IMAGE / "Containerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (one.partition(" ") for one in joined.splitlines() if one)]


def test_there_are_only_instructions(instructions: list[tuple[str, str]]) -> None:
    known = {"FROM", "RUN", "WORKDIR", "ENV", "COPY", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in instructions} <= known


def test_bases_have_a_tag_and_no_registry(instructions: list[tuple[str, str]]) -> None:
    bases = [rest.split()[0] for word, rest in instructions if word == "FROM"]
    assert len(bases) == 2
    for base in bases:
        name, _, tag = base.partition(":")
        assert tag
        assert tag != "latest"
        assert "." not in name.partition("/")[0]


def test_what_is_copied_exists(instructions: list[tuple[str, str]]) -> None:
    for word, rest in instructions:
        if word == "COPY" and "--from=" not in rest:
            *sources, _ = rest.split()
            for source in sources:
                assert (ROOT / source).exists(), source


def test_the_last_stage_runs_as_nobody(instructions: list[tuple[str, str]]) -> None:
    last = max(index for index, (word, _) in enumerate(instructions) if word == "FROM")
    assert [rest for word, rest in instructions[last:] if word == "USER"] == [USER]


def test_the_python_that_is_run_while_building_is_one(instructions: list[tuple[str, str]]) -> None:
    programs = [found[1] for word, rest in instructions if (found := re.search(r'python -c "(.*)"', rest))]
    (program,) = programs
    compile(program, "Containerfile", "exec")
    for found in re.finditer(r"from (penstock\S*) import ([\w, ]+)", program):
        module = __import__(found[1], fromlist=["x"])
        for name in found[2].split(","):
            assert hasattr(module, name.strip()) or __import__(f"{found[1]}.{name.strip()}")


@pytest.fixture
def echoes(tmp_path: Path) -> dict[str, str]:
    """An environment whose `penstock` and `java` print what they were called with."""
    for path in (tmp_path / "penstock", tmp_path / "bin" / "java"):
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\n" "$one"; done\n')
        path.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "JAVA_HOME": str(tmp_path), "SPARK_HOME": "/spark"}


def entered(environment: dict[str, str], *arguments: str) -> list[str]:
    ran = subprocess.run(
        ["sh", str(IMAGE / "entrypoint.sh"), *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()


def test_roles_are_passed_on(echoes: dict[str, str]) -> None:
    assert os.access(IMAGE / "entrypoint.sh", os.X_OK)
    assert entered(echoes, "ingress", "--set", "a=b c") == ["ingress", "--set", "a=b c"]


def test_an_executor_starts_as_spark_asks(echoes: dict[str, str]) -> None:
    asked = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "6",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "penstock-exec-3",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number} x" for number in range(12)},
    }
    told = entered({**echoes, **asked}, "executor")
    assert told[:12] == [f"-Dn={number} x" for number in range(12)]
    assert told[12:16] == ["-Xms1024m", "-Xmx1024m", "-cp", ":/spark/jars/*"]
    assert told[16] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    options = dict(zip(told[17::2], told[18::2], strict=True))
    assert options["--driver-url"] == asked["SPARK_DRIVER_URL"]
    assert options["--podName"] == "penstock-exec-3"


def test_an_executor_that_was_not_told_its_driver_ends(echoes: dict[str, str]) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 2"):
        entered(echoes, "executor")
