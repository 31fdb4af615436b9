"""penstock: Brokers, Triggers, Channels and Subscriptions that route CloudEvents, durable by default."""
