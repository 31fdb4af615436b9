"""The CloudEvent value and its bindings to HTTP and Kafka. Knows nothing of Brokers, routes or deliveries."""
