"""The embedded Kubernetes-compatible API: generic storage, verbs, watches and discovery over HTTPS.

It knows kinds only by their CustomResourceDefinitions and by a small table of core kinds. Follow a request through
`app` (routing), `requests` (what is asked), `reading` and `writing` (the verbs), `storage` (SQLite), `watching`.
"""
