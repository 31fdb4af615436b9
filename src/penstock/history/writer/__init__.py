"""From Kafka into the tables, each record once, whatever is killed at whatever moment."""
