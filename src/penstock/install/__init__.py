"""What an existing cluster needs to run penstock, as Kubernetes objects: the one source of `penstock install`, of the
plain manifests and of the Helm chart under `deploy/`."""
