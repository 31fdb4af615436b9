"""The kinds of flows.knative.dev/v1: chains and branches, built of Channels and Subscriptions."""
