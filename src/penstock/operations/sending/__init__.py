"""Events to a Broker or Channel by hand: where to, as whom, and what came of it."""
