"""Trigger (eventing.knative.dev/v1)."""
