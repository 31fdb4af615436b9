"""What Triggers and Subscriptions take from Secrets: what such a Secret has to hold, and how one is reported that does
not."""
