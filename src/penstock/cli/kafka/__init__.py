"""Commands that look after the topics in Kafka."""
