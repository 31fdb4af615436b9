"""The jars of Kafka, Spark's Kafka connector and Delta Lake: fetched by Ivy, pinned by checksum, cached."""
