"""PingSources that run: one agenda for all, a note of every tick, and ticks that wait for their sink."""
