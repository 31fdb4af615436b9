"""HTTP servers of the embedded control plane: JobSinks, RequestReplies, and the checks in front of guarded Services."""
