"""What routes need of Secrets to send anything: asked for from the Kubernetes API, in memory and nowhere else."""
