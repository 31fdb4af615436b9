"""The roles of penstock, one process each: the table of roles, and how one runs with and without a supervisor."""
