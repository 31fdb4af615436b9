"""EventPolicy (eventing.knative.dev/v1alpha1): from whom Brokers, Channels and JobSinks take which events."""
