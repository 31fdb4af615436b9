"""The programs of the conformance tests, which send, receive and record events."""
