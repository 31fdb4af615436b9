"""Headers of records in `penstock.events` and `penstock.matched`, beside those of the CloudEvents Kafka binding.

An event is stored as the CloudEvents Kafka binding's binary mode asks: `ce_<attribute>` headers, `content-type` for
`datacontenttype`, the data as value (null where there is none). The headers here are penstock's own.
"""

TARGET = "penstock_target"
"""uid of the Broker or Channel that accepted the event."""

PASSED = "penstock_http_"
"""Prefix of HTTP headers that travel along with the event, such as `penstock_http_x-request-id`."""

TRACE = "penstock_traceparent"
"""W3C trace context of the span that received the event; `penstock_tracestate` likewise."""

TRACE_STATE = "penstock_tracestate"

MARKER = "penstock_marker"
"""On a marker record, which is no event: `<generation>:<sequence>:<unix milliseconds>`. Markers have no target."""

ORIGIN = "penstock_origin"
"""In `penstock.matched`: the record's offset in the same partition of `penstock.events`, in decimal."""

ROUTES = "penstock_routes"
"""In `penstock.matched`: the uids of the routes that match, joined by commas. Empty on markers."""

GENERATION = "penstock_generation"
"""In `penstock.matched`: the router's generation that wrote the record, in decimal."""

FENCE = "penstock_fence"
"""On a record of `penstock.matched` that is neither an event nor a marker: from here on no record of a lower generation
counts in this partition. The number of the generation that counted before, in decimal; 0 before the first one."""

PARTS_LEFT = "penstock_parts_left"
"""In `penstock.matched`: how many records follow with further routes of the same event, where they do not fit into one.
Without it all of the event's routes have been named: only then has the event been routed."""

DATA_UNREAD = "penstock_data_unread"
"""In `penstock.matched`: a filter asks for the event's data, which is no JSON. Without routes such a record is
there only to be counted, and has no value."""
