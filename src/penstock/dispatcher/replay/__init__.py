"""Replays: routes with an end, for events that came long ago. They read `penstock.events` themselves."""
