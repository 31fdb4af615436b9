"""What the tables hold: columns, and how a record of Kafka becomes a row, in Python and in Spark."""
