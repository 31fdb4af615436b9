"""Every event and every delivery attempt, kept in two tables for questions that come after Kafka has forgotten.

`schema` says what the tables hold, `writer` fills them from Kafka, `reader` answers from the tables and from what Kafka
has beyond them. Start at `reader/history.py`: one function for each question.
"""
