"""Where every route stands in every partition, and how that is written down."""
