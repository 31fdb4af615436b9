"""The table of a run, and how the suite is called."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from penstock.settings import Settings
from penstock.workloads.images import Actor, Images, Program
from tools.upstream.__main__ import ENCRYPTED_FEATURES, FEATURES, GUARDED_FEATURES, by_features, settings_file
from tools.upstream.binaries import SHELL_IMAGE, Binaries
from tools.upstream.expectations import PASS, Expectation
from tools.upstream.page import PAGE, publish
from tools.upstream.report import Row, markdown, rows, summary, write
from tools.upstream.suite import command_line, in_order
from tools.upstream.testlog import Ended

ROOT = Path(__file__).parents[3]
EXPECTATIONS = {
    "TestA": PASS,
    "TestB": Expectation(fail="An inside is looked for"),
    "TestTLS": Expectation(needs="Certificates"),
    "TestZ": Expectation(skip="Upstream leaves it out"),
}
RESULTS = [
    Ended("TestZ", "skipped", 0.2, 0, 0, ""),
    Ended("TestB", "failed", 3.04, 4, 1, "no channel\n"),
    Ended("TestA", "failed", 2.0, 1, 0, "it broke\n"),
]
listed = rows(EXPECTATIONS, RESULTS, ["TestTLS"])


def test_every_test_has_a_row_and_a_reason_only_where_it_stands_as_expected() -> None:
    assert listed == [
        Row("TestA", "failed", "", 2.0, 1, 0),
        Row("TestB", "failed", "An inside is looked for", 3.0, 4, 1),
        Row("TestTLS", "needs what is not here", "Certificates"),
        Row("TestZ", "skipped by the suite", "Upstream leaves it out", 0.2, 0, 0),
    ]
    assert summary(listed) == "4 tests: 2 failed, 1 skipped by the suite, 1 needs what is not here."


def test_the_page_tells_what_does_not_pass_by_reason() -> None:
    page = markdown(listed, "v0.48.0", 12.3)
    assert "- An inside is looked for: TestB\n" in page
    assert "- no reason is known: TestA\n" in page
    assert "| TestB | failed | 4 | 1 | 3 |" in page
    assert "| TestTLS | needs what is not here | | | |" in page


def test_a_table_takes_the_place_of_the_last_one_and_leaves_the_other_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    upstream = "<!-- upstream: begin -->\n{}\n<!-- upstream: end -->\n"
    other = "<!-- specifications: begin -->\nother\n<!-- specifications: end -->\n"
    page.write_text(upstream.format("old") + other)
    publish(page, "upstream", "# Conformance\n\nnew\n")
    assert page.read_text() == upstream.format("new") + other


def test_the_page_has_a_place_for_both_tables(tmp_path: Path) -> None:
    copy = tmp_path / "conformance.md"
    copy.write_text((ROOT / PAGE).read_text())
    publish(copy, "upstream", "this one")
    publish(copy, "specifications", "that one")
    assert {"this one", "that one"} < set(copy.read_text().splitlines())
    copy.write_text("without marks")
    with pytest.raises(ValueError, match="no place for the part upstream"):
        publish(copy, "upstream", "lost")


def test_what_failed_tests_printed_is_kept(tmp_path: Path) -> None:
    write(tmp_path, listed, "page", RESULTS, "panic")
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"report.md", "report.json", "stray.log", "TestA.log", "TestB.log"}
    assert (tmp_path / "TestB.log").read_text() == "no channel\n"


def test_a_process_runs_one_test_or_some_of_its_steps() -> None:
    suite, images = Path("rekt.test"), Path("images.yaml")
    assert "-test.run=^TestA$" in command_line(suite, images, "TestA")
    assert "-test.run=^TestA$/Assert" in command_line(suite, images, "TestA", "Assert")


def test_the_longest_tests_are_begun_first() -> None:
    assert in_order(["TestA", "TestChannelConformance", "TestB"]) == ["TestChannelConformance", "TestA", "TestB"]


def test_every_image_that_the_suite_asks_for_has_a_command_or_is_built_in() -> None:
    built = Binaries(Path("/bin-folder"))
    images = Images(Settings.model_validate(tomllib.loads(settings_file(built))).images)
    found = {package.rpartition("/")[2]: images.find(image, "test") for package, image in built.produced().items()}
    assert found["eventshub"] == Actor("eventshub")
    assert found["heartbeats"] == Program("upstream.local/heartbeats", ("/bin-folder/heartbeats",))
    assert None not in found.values()
    assert images.find(SHELL_IMAGE, "test") == Program(SHELL_IMAGE, ())


def test_tests_of_tls_and_of_who_may_send_have_features_of_their_own() -> None:
    tests = ["TestBrokerSupportsAuthZ", "TestPingSourceTLS", "TestChannelChain", "TestSequenceSupportsOIDC"]
    assert list(by_features(tests).items()) == [
        (FEATURES, [tests[2]]),
        (ENCRYPTED_FEATURES, [tests[1]]),
        (GUARDED_FEATURES, [tests[0], tests[3]]),
    ]
    assert by_features(tests[2:3]) == {FEATURES: tests[2:3]}
