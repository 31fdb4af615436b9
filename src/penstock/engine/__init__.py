"""What penstock starts for you: the embedded Kafka, the Spark session, and the processes of the stack, watched over."""
