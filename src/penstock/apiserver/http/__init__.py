"""Requests and responses: from the path of a request to the verb that does it, and back."""
