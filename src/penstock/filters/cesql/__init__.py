"""CloudEvents SQL 1.0: a small total language of predicates over an event's attributes.

`parse` gives a syntax tree or says what is wrong with the text; `evaluate` is the reference evaluator (a value and the
errors met on the way); `columns` compiles the same tree to Spark columns.
"""

from penstock.filters.cesql.parser import ParseError, parse

__all__ = ["ParseError", "parse"]
