"""Kubernetes' protobuf: bodies that clients send, and the OpenAPI document for those who want it so."""
