"""Objects of the API for people without kubectl: create, apply, get, delete."""
