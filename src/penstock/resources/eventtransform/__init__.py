"""EventTransform (eventing.knative.dev/v1alpha1): what a JSONata expression makes of events."""
