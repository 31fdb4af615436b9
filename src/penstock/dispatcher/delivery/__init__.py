"""One delivery: its request, the meaning of the response, the next step, and what is reported."""
