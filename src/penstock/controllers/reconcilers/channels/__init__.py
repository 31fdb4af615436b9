"""Controllers of Channels and Subscriptions."""
