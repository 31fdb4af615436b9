"""Stories in which a promise was broken once, shrunk by `make simulate`. They are tried at every run of the tests."""

from __future__ import annotations

from tests.simulation.sim_story import Step, Story

FOUND: tuple[Story, ...] = (
    # Retention removes a fence unread, and a task of the former generation writes on.
    Story(
        seed=20004,
        partitions=1,
        executors=2,
        notes_flushed=True,
        settings=(("max_outstanding", 2), ("max_in_flight", 1), ("catch_up_records", 2), ("cursor_flush_ms", 1000)),
        steps=(
            Step(
                at=8.25,
                kind="create",
                what="r3",
                how=(
                    ("types", "c"),
                    ("dialect", "exact"),
                    ("ordered", False),
                    ("retry", 1000),
                    ("dead_letter", True),
                    ("replies", False),
                    ("past", False),
                ),
            ),
            Step(at=13.81, kind="freeze", what="worker", how=(("seconds", 8),)),
            Step(
                at=14.01,
                kind="create",
                what="r0",
                how=(
                    ("types", "bc"),
                    ("dialect", "exact"),
                    ("ordered", True),
                    ("retry", 1000),
                    ("dead_letter", True),
                    ("replies", True),
                    ("past", False),
                ),
            ),
            Step(at=14.21, kind="filter", what="r0", how=(("types", "b"),)),
            Step(at=18.64, kind="filter", what="r3", how=(("types", "b"),)),
            Step(at=20.46, kind="filter", what="r0", how=(("types", "abc"),)),
            Step(at=23.45, kind="filter", what="r0", how=(("types", "ab"),)),
            Step(at=24.05, kind="send", what="", how=(("count", 10), ("seconds", 3.0))),
            Step(
                at=30.93,
                kind="create",
                what="r1",
                how=(
                    ("types", "a"),
                    ("dialect", "cesql"),
                    ("ordered", True),
                    ("retry", 2),
                    ("dead_letter", False),
                    ("replies", False),
                    ("past", True),
                ),
            ),
            Step(at=33.11, kind="freeze", what="worker", how=(("seconds", 8),)),
            Step(
                at=33.31,
                kind="create",
                what="r2",
                how=(
                    ("types", "ab"),
                    ("dialect", "exact"),
                    ("ordered", False),
                    ("retry", 1000),
                    ("dead_letter", True),
                    ("replies", False),
                    ("past", False),
                ),
            ),
            Step(at=34.11, kind="send", what="", how=(("count", 10), ("seconds", 3.0))),
            Step(at=34.6, kind="freeze", what="worker", how=(("seconds", 20),)),
            Step(at=36.5, kind="filter", what="r0", how=(("types", "abc"),)),
            Step(at=37.49, kind="retention", what="matched", how=(("left", 2),)),
        ),
    ),
    # Retention removes all matched events while a route still has to look for the first of them.
    Story(
        seed=32944,
        partitions=2,
        executors=0,
        notes_flushed=True,
        settings=(("cursor_flush_ms", 3000),),
        steps=(
            Step(at=25.56, kind="send", what="", how=(("count", 1), ("seconds", 0.0))),
            Step(
                at=25.68,
                kind="create",
                what="r1",
                how=(
                    ("types", "ab"),
                    ("dialect", "cesql"),
                    ("ordered", True),
                    ("retry", 1000),
                    ("dead_letter", True),
                    ("replies", False),
                    ("past", False),
                ),
            ),
            Step(at=26.28, kind="kill", what="pipeline", how=()),
            Step(at=43.44, kind="send", what="", how=(("count", 3), ("seconds", 0.0))),
            Step(at=54.21, kind="freeze", what="worker", how=(("seconds", 8),)),
            Step(at=55.21, kind="send", what="", how=(("count", 10), ("seconds", 1.0))),
            Step(at=58.8, kind="retention", what="matched", how=(("left", 0),)),
            Step(at=59.0, kind="retention", what="events", how=(("part", 1.0),)),
        ),
    ),
)
