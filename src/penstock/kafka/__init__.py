"""The only package that talks to Kafka: clients, their watchdog, followers of tables, writers of reports."""
