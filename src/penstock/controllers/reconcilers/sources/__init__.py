"""Controllers of the kinds of sources.knative.dev, and the sources that they keep running."""
