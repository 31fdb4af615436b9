"""Child processes: started, supervised, restarted and stopped."""
