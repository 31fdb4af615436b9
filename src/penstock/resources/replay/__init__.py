"""Replay (penstock.dev/v1alpha1): events that come once more."""
