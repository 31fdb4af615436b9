"""JobSink (sinks.knative.dev/v1alpha1): a Job for each event."""
