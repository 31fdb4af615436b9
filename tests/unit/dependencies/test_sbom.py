"""The bill of materials: what is in it, and that it says enough to look things up by."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from cyclonedx.output.json import JsonV1Dot6

from penstock.engine.jars import pinned_jars
from penstock.engine.jars.pinned_jars import PinnedJar
from tools.dependencies import sbom
from tools.dependencies.packages import Package, locked, shipped

PACKAGES = [
    Package("penstock", "1.0", "Apache-2.0", ("pyspark", "rich")),
    Package("pyspark", "4.2.0", "Apache-2.0"),
    Package("rich", "15.0.0", "MIT OR Apache-2.0", ("pygments", "not-here")),
    Package("pygments", "2.0", "LicenseRef-unknown"),
]
JAR = PinnedJar("kafka/re2j-1.8.jar", "com.google.re2j", "re2j", "1.8", "a" * 64, ["Go License"])


def written(*inside: Path) -> dict[str, Any]:
    text = JsonV1Dot6(sbom.bill(PACKAGES, [JAR], sbom.inside(inside))).output_as_string()
    document: dict[str, Any] = json.loads(text)
    return document


def jar(folder: Path, name: str, *entries: str) -> Path:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for entry in entries:
            archive.writestr(entry, "")
    return folder / name


def test_packages_and_jars_have_names_that_scanners_know_licences_and_sums() -> None:
    document = written()
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/penstock@1.0"
    found = {one["purl"]: one for one in document["components"]}
    assert set(found) == {
        "pkg:pypi/pyspark@4.2.0",
        "pkg:pypi/rich@15.0.0",
        "pkg:pypi/pygments@2.0",
        "pkg:maven/com.google.re2j/re2j@1.8",
    }
    assert found["pkg:pypi/rich@15.0.0"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert found["pkg:maven/com.google.re2j/re2j@1.8"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert found["pkg:maven/com.google.re2j/re2j@1.8"]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_who_needs_whom_is_told() -> None:
    needs = {one["ref"]: one.get("dependsOn", []) for one in written()["dependencies"]}
    product = next(ref for ref in needs if "penstock" in ref)
    assert len(needs[product]) == 3
    assert [ref for ref in needs if needs[ref] == ["pypi/pygments@2.0"]] == ["pypi/rich@15.0.0"]


def test_jars_inside_pyspark_are_named_by_themselves_or_by_their_files(tmp_path: Path) -> None:
    known = jar(
        tmp_path,
        "ivy-2.5.3.jar",
        "META-INF/maven/other/shaded/pom.properties",
        "META-INF/maven/org.x/ivy/pom.properties",
    )
    unknown = jar(tmp_path, "odd_2.13-1.0-rc1.jar")
    spark = next(one for one in written(known, unknown)["components"] if one["name"] == "pyspark")
    ivy, odd = sorted(spark["components"], key=lambda one: str(one["name"]))
    assert (ivy["purl"], len(ivy["hashes"][0]["content"])) == ("pkg:maven/org.x/ivy@2.5.3", 64)
    assert (odd["name"], odd["version"], "purl" in odd) == ("odd_2.13", "1.0-rc1", False)


def test_versions_are_those_of_the_lock_file() -> None:
    packages = shipped()
    assert packages[0].name == "penstock"
    assert {"pyspark", "confluent-kafka", "uvloop", "py4j", "duckdb"} <= {one.name for one in packages}
    assert not {"pytest", "mypy", "cyclonedx-python-lib"} & {one.name for one in packages}
    assert {one.name: one.version for one in packages[1:]}.items() <= locked().items()


def test_every_jar_is_there_once() -> None:
    jars = pinned_jars.every()
    assert {"kafka_2.13", "spark-sql-kafka-0-10_2.13", "delta-storage"} <= {one.name for one in jars}
    assert len({(one.organisation, one.name, one.version) for one in jars}) == len(jars)
