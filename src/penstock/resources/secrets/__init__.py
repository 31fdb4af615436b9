"""What Triggers and Subscriptions take from Secrets: what such a Secret has to hold, and what is told of one that does
not."""
