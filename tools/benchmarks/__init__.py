"""penstock measured, beside Knative's default Broker, on the machine at hand."""
