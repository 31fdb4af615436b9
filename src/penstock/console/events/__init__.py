"""The console's pages about events: live, search, a single event, dead letters, and a playground for filters."""
