"""Broker (eventing.knative.dev/v1)."""
