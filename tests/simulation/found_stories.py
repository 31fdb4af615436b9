"""Stories in which a promise was broken once, shrunk by `make simulate`. They are tried at every run of the tests."""

from __future__ import annotations

from tests.simulation.sim_story import Story

FOUND: tuple[Story, ...] = ()
