"""penstock as a cluster runs it: three brokers, every role a process of its own and there twice, hit under load."""
