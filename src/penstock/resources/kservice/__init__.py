"""Service (serving.knative.dev/v1), as small as it can be: one revision, run by a Deployment behind a Service."""
