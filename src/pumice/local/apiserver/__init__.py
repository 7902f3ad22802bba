"""The embedded, kubectl-compatible API server: Server.handle answers kube's Requests and knows nothing of HTTP.

Read along a request: `http` (the socket) or `local` (calls within the process), `authentication`, `server` (routes a request),
`request_parsing`, `rbac`, then `reading`, `writing`, `patching` and `deleting` (the verbs). What a write passes through: `decoding`
and `schema` (types, defaults), `admission` with `builtin_admission`, `quota` and `webhooks`, and `backend` with `store`, `history` and `journal`
(what is kept, and how durably). `registry`, `structures` and `crds` know the kinds, `behaviours`, `pods` and `pod_subresources` what
is special about some of them, `bootstrap` what is there from the start; `discovery`, `openapi` and `pages` describe them to clients; `watching`, `representations` and `tables` shape answers. `garbage`, `disruption` and `event_retention` work
in the background. `failures` is how the server says no, and `serving` puts a whole server into a folder.
"""
