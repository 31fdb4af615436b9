"""The topics in Kafka: how they should be, making and checking them, and giving them more partitions."""
