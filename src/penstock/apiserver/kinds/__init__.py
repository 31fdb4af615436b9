"""The kinds that are served: names, schemas, rules, columns, discovery."""
