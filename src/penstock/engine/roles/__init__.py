"""The roles of penstock, one process each: their table, and how one is run without a supervisor."""
