"""Kubernetes' protobuf: request bodies, and the OpenAPI v2 document."""
