"""The Kubernetes objects of an installation in an existing cluster: the one source of `penstock install`, of the plain
manifests and of the Helm chart under `deploy/`."""
