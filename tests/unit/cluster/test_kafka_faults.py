"""What is done to the log of events on disk, what a pipeline says of it, and which events may be missing after it."""

from __future__ import annotations

from pathlib import Path

from tools.chaos.books import Sent
from tools.chaos.checker import Findings, Lost
from tools.cluster import results
from tools.cluster.kafka_faults import REPLY_SECONDS, KafkaFaults, refusal, replace_log
from tools.cluster.results import Result


def test_the_files_of_one_replica_replace_those_of_the_others_and_of_no_other_topic(tmp_path: Path) -> None:
    for broker, text in (("1", "long"), ("2", "long"), ("3", "short")):
        for folder in ("penstock.events-0", "penstock.events-archive-0", "penstock.matched-0"):
            (tmp_path / broker / folder).mkdir(parents=True)
            (tmp_path / broker / folder / "0.log").write_text(text)
    (tmp_path / "1/penstock.events-0/100.log").write_text("a segment that the other one lacks")
    replace_log([tmp_path / "1", tmp_path / "2"], tmp_path / "3", "penstock.events")
    for broker in ("1", "2"):
        assert [file.name for file in (tmp_path / broker / "penstock.events-0").iterdir()] == ["0.log"]
        assert (tmp_path / broker / "penstock.events-0/0.log").read_text() == "short"
        assert (tmp_path / broker / "penstock.events-archive-0/0.log").read_text() == "long"
        assert (tmp_path / broker / "penstock.matched-0/0.log").read_text() == "long"


def test_a_refusal_is_found_among_other_lines() -> None:
    said = "penstock.events is not the log that routes and cursors refer to: partition 0 ends at 10"
    assert refusal(f"starting\n  {said}\nended") == said
    assert refusal("starting\nended") is None


def test_only_what_was_accepted_while_the_replica_was_behind_may_be_missing(tmp_path: Path) -> None:
    sent = Sent()
    for number, at in enumerate((100.0, 205.0, 300.0)):
        sent.begin(number, at)
        sent.accept(number, at)
    faults = KafkaFaults(tmp_path, None, None, sent, print)  # type: ignore[arg-type]
    assert not faults.forgotten(Lost("all", "1"))
    faults.cut.append((200.0, 215.0))
    assert [faults.forgotten(Lost("all", ident)) for ident in ("0", "1", "2")] == [False, True, False]
    faults.cut[0] = (100.0 + REPLY_SECONDS / 2, 200.0)
    assert faults.forgotten(Lost("answers", "r0"))
    assert not faults.forgotten(Lost("all", "0"))


def test_the_report_counts_what_kafka_lost_and_still_fails_for_anything_else() -> None:
    found = Result(accepted=10, deliveries=30, counted=30, forgotten=4)
    assert found.broken == []
    assert "Confirmed by Kafka and lost by it: 4." in results.markdown(found)
    found.findings = Findings(lost=[Lost("all", "7")])
    assert len(found.broken) == 1
