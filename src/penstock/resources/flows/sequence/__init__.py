"""Sequence (flows.knative.dev/v1): steps that each get the answer of the one before."""
