"""The Kubernetes client: kubeconfigs, kinds, paths, requests, typed errors, list and watch."""
