"""Channel (messaging.knative.dev/v1): the facade over a channel that does the work."""
