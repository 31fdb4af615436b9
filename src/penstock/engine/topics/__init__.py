"""The topics in Kafka: their configuration, creation, checks, and additional partitions."""
