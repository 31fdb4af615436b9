"""Events by hand: send, listen, tail, explain; and what these commands share with others."""
