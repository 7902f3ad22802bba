"""The embedded, kubectl-compatible API server: Server.handle answers kube's Requests and knows nothing of HTTP."""
