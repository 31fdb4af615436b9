"""The stack itself: its components, versions and logs."""
