"""An InMemoryChannel has the shape of a Channel without a template."""

from penstock.resources.channel.model import Channel

GROUP, KIND, PLURAL = "messaging.knative.dev", "InMemoryChannel", "inmemorychannels"
SCOPE_ANNOTATION = "eventing.knative.dev/scope"

InMemoryChannel = Channel
