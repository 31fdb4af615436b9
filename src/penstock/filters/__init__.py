"""Which events a route wants: the dialects of Trigger filters, parsed once, evaluated in Python or in Spark."""
