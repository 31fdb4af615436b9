"""Which process has a role that only one may have at a time: decided in Kafka, with an epoch that only grows."""
