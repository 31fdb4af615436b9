"""EventPolicy (eventing.knative.dev/v1alpha1): from whom Brokers and Channels of its namespace take which events."""
