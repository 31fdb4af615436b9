"""EventType (eventing.knative.dev/v1beta1 to v1beta3): what kinds of events may be had, and where."""
