"""Questions to the tables and to what Kafka has beyond them."""
