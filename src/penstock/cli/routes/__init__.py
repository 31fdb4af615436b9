"""Triggers and Subscriptions at work: top, lag, pause, resume."""
