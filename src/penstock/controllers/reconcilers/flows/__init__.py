"""Controllers of flows: Sequence and Parallel, which are made of Channels and Subscriptions."""
