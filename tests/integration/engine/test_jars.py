"""The jar cache: cold (really fetched), warm (without network), damaged (repaired), forged, and without network."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from penstock.engine import java
from penstock.engine.jars import jar_cache, pinned_jars
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.java import Java
from penstock.runtime.errors import UserError
from penstock.settings import Settings

NO_JAVA = Java(Path("/nonexistent/java"), "17", 17)
"""Whoever tries to fetch with this fails."""


@pytest.fixture
def fetched(tmp_path: Path, jar_folders: Jars) -> Settings:
    """A cache of its own, filled by copying."""
    settings = Settings(cache_dir=tmp_path / "cache")
    shutil.copytree(jar_folders.root, jar_cache.folder(settings))
    return settings


@pytest.fixture
def courier(tmp_path: Path, jar_folders: Jars) -> Java:
    """A `java` that brings the jars as Ivy does, from the cache that is there instead of from the network."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'for argument; do case "$argument" in *"[conf]"*) target=${argument%%/\\[conf\\]*};; esac; done\n'
        'echo fetched >> "$(dirname "$0")/visits"\n'
        'mkdir -p "$target/ivy"\n'
        f'cp -r {jar_folders.root}/kafka {jar_folders.root}/spark "$target"\n'
        'for jar in "$target"/*/*.jar; do echo "\tfound it in public"; done\n'
        'for jar in "$target"/*/*.jar; do echo "\t[SUCCESSFUL ] org#$(basename "$jar")!a.jar (1ms)"; done\n'
    )
    program.chmod(0o755)
    return Java(program, "17", 17)


def visits(courier: Java) -> int:
    record = courier.program.with_name("visits")
    return len(record.read_text().splitlines()) if record.exists() else 0


@pytest.mark.long
def test_a_cold_cache_is_filled_from_maven_central(tmp_path: Path) -> None:
    settings = Settings(cache_dir=tmp_path)
    steps: list[tuple[int, int]] = []
    found = jar_cache.resolve(settings, java.find_java(), lambda done, total, what: steps.append((done, total)))
    assert list((found.root / "kafka").glob("kafka_2.13-4*.jar"))
    assert len(found.spark_files) == 4
    assert jar_cache.damage(found.root) == []
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1] >= 40
    assert sorted(path.name for path in found.root.iterdir()) == ["ivy.xml", "kafka", "spark", "verified.json"]


def test_a_warm_cache_needs_no_network(fetched: Settings) -> None:
    assert jar_cache.resolve(fetched, NO_JAVA).root == jar_cache.folder(fetched)


def test_a_damaged_file_is_noticed_and_repaired(fetched: Settings, courier: Java) -> None:
    victim = next((jar_cache.folder(fetched) / "kafka").glob("kafka-clients*.jar"))
    with victim.open("r+b") as file:
        file.seek(1000)
        file.write(b"\0\0\0\0damaged")
    steps: list[int] = []
    repaired = jar_cache.resolve(fetched, courier, lambda done, total, what: steps.append(done))
    assert jar_cache.damage(repaired.root) == []
    assert (visits(courier), steps[-1]) == (1, len(list(repaired.root.glob("*/*.jar"))))


def test_a_jar_with_other_bytes_than_the_pinned_ones_is_never_used(tmp_path: Path, courier: Java) -> None:
    settings = Settings(cache_dir=tmp_path / "cache")
    script = courier.program.read_text()
    courier.program.write_text(script + 'echo forged >> "$target/kafka/slf4j-api-1.7.36.jar"\n')
    with pytest.raises(UserError, match="do not have the checksums that penstock expects") as raised:
        jar_cache.resolve(settings, courier)
    [line] = raised.value.details
    assert line.startswith("kafka/slf4j-api-1.7.36.jar has changed: expected d3ef575e")
    assert not list((tmp_path / "cache" / "jars").glob("*/"))
    courier.program.write_text(script)
    assert jar_cache.damage(jar_cache.resolve(settings, courier).root) == []


def test_a_cache_of_an_earlier_version_is_looked_at_and_kept(fetched: Settings) -> None:
    root = jar_cache.folder(fetched)
    (root / pinned_jars.VERIFIED_FILE).unlink()
    assert jar_cache.resolve(fetched, NO_JAVA).root == root
    assert (root / pinned_jars.VERIFIED_FILE).exists()


def test_two_that_start_together_fetch_once(tmp_path: Path, courier: Java) -> None:
    settings = Settings(cache_dir=tmp_path / "cache")
    both = [threading.Thread(target=jar_cache.resolve, args=(settings, courier)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(120)
    assert visits(courier) == 1


def test_without_network_the_problem_says_so(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho ':: UNRESOLVED DEPENDENCIES: unknown host'\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="could not be fetched from Maven Central") as raised:
        jar_cache.resolve(Settings(cache_dir=tmp_path / "cache"), Java(program, "17", 17))
    assert "Check the network" in raised.value.remedy
    assert "unknown host" in raised.value.details[-1]
    assert not list((tmp_path / "cache" / "jars").glob("*.new"))


def test_a_cache_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"cache folder {tmp_path / 'file'} cannot be used"):
        jar_cache.resolve(Settings(cache_dir=tmp_path / "file"), NO_JAVA)
