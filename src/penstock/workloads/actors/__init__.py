"""The built-in programs: sources, sinks and transformations, and the actors of conformance tests."""
