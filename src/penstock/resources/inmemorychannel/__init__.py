"""InMemoryChannel (messaging.knative.dev/v1): durable here, in spite of its name."""
