"""Tools of the project that are not part of the wheel: benchmarks, faults, clusters, Knative's tests, dependencies."""
