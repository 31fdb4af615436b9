"""What comes to topics at this moment, for people who watch."""
