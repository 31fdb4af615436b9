"""The router: reads `penstock.events`, finds the routes of each event with Spark, writes `penstock.matched`."""
