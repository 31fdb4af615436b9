"""Parallel (flows.knative.dev/v1): branches that each get every event, behind a filter or not."""
