"""SinkBinding: tells the containers of other objects where their events go."""
