"""Replays: routes with an end, for past events. They read `penstock.events` themselves."""
