"""`make sbom`: the bill of materials of a release, as CycloneDX JSON.

It names the Python packages that an installation with `history` gets, the jars that penstock fetches with their pinned
sums, and the jars inside pyspark, which no index of Python packages knows about, with the sums they have here.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from penstock.engine.jars import pinned_jars
from penstock.engine.jars.pinned_jars import PinnedJar
from penstock.engine.spark_gateway import spark_jars
from tools.dependencies import licences
from tools.dependencies.packages import Package, shipped

ROOT = Path(__file__).resolve().parents[2]

_LICENCES = LicenseFactory()
_FILE_NAME = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")


def bill(packages: list[Package], jars: Iterable[PinnedJar], inside_spark: Iterable[Component]) -> Bom:
    """The bill: the first package is what is released, and needs the jars beside what its metadata name."""
    made = {one.name: _package(one) for one in packages}
    product, *others = made.values()
    product.type = ComponentType.APPLICATION
    fetched = [_jar(one) for one in jars]
    bom = Bom(components=[*others, *fetched])
    bom.metadata.component = product
    for one in packages:
        bom.register_dependency(made[one.name], [made[name] for name in one.needs if name in made])
    bom.register_dependency(product, fetched)
    if "pyspark" in made:
        made["pyspark"].components.update(inside_spark)
    return bom


def _package(one: Package) -> Component:
    purl = PackageURL("pypi", None, one.name, one.version)
    return _component(one.name, one.version, one.licence, purl, f"pypi/{one.name}@{one.version}")


def _jar(one: PinnedJar) -> Component:
    purl = PackageURL("maven", one.organisation, one.name, one.version)
    made = _component(one.name, one.version, licences.of_jar(one.licences), purl, purl.to_string())
    made.group = one.organisation
    made.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=one.sha256))
    return made


def _component(name: str, version: str, licence: str, purl: PackageURL, reference: str) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        licenses=[_LICENCES.make_from_string(licence)],
        purl=purl,
        bom_ref=reference,
    )


def inside(files: Iterable[Path]) -> Iterator[Component]:
    """Jars as components, by what they say of themselves, or by their file names."""
    for file in files:
        group, name, version = coordinates(file)
        yield Component(
            name=name,
            version=version,
            group=group,
            type=ComponentType.LIBRARY,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=pinned_jars.sha256(file))],
            purl=PackageURL("maven", group, name, version) if group else None,
            bom_ref=f"pyspark/{file.name}",
        )


def coordinates(file: Path) -> tuple[str | None, str, str | None]:
    """Group, name and version of a jar. Only its own `pom.properties` counts: some jars hold others."""
    found = _FILE_NAME.fullmatch(file.name)
    name, version = (found[1], found[2]) if found else (file.stem, None)
    with zipfile.ZipFile(file) as archive:
        for entry in archive.namelist():
            parts = entry.split("/")
            if parts[:2] == ["META-INF", "maven"] and parts[3:] == [name, "pom.properties"]:
                return parts[2], name, version
    return None, name, version


def main() -> int:
    """Writes the file. The exit code."""
    packages = shipped()
    jars = pinned_jars.every()
    bom = bill(packages, jars, inside(spark_jars()))
    target = ROOT / "dist" / f"{packages[0].name}-{packages[0].version}.cdx.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n")
    print(f"{target.relative_to(ROOT)}: {len(packages) - 1} Python packages, {len(jars)} jars, those inside pyspark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
