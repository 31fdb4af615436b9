"""One delivery: its request, what the answer means, what follows, and what is told of it."""
