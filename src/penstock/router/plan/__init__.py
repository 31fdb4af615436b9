"""Routes as a Spark plan: filed, matched, tried, and left out where Spark cannot plan them."""
