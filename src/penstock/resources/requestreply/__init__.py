"""RequestReply (eventing.knative.dev/v1alpha1): an answer to a request, though there is a Broker in between."""
