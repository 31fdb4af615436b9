"""Jars from elsewhere: how they are fetched, and which bytes each must have."""
