"""Kinds of sources.knative.dev: what makes events, or has others make them, and sends them to a sink."""
