"""The embedded Kubernetes-compatible API: generic storage, verbs, watches and discovery over HTTPS.

It knows kinds only by their CustomResourceDefinitions and by a small table of core kinds. Follow a request through
`http.app` (routing), `http.read_endpoints` and `http.write_endpoints`, `verbs.writing`, `store.storage` (SQLite).
"""
