"""PingSource: a fixed event by a schedule."""
