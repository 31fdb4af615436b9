"""The console's pages about events: those that come, one of them, what was given up, and a playground for filters."""
