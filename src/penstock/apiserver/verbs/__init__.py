"""What can be done to objects: create, update, patch, apply, delete, and the history that watches read."""
