"""One Trigger or Subscription: its numbers, what fails, and what can be done about it."""
