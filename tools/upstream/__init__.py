"""Knative's own end-to-end suite against a stack of penstock: built, run, judged by a list of expectations."""
