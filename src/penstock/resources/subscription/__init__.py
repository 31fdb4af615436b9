"""Subscription (messaging.knative.dev/v1)."""
