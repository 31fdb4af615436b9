"""The only room that speaks with Kafka: clients, their watchdog, followers of tables, writers of reports."""
