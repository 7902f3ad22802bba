{{/* A process may hold its own lease, and no other; the argument is a list of the root, the process and its account. */}}
{{- define "pumice.election" -}}
{{- $root := index . 0 -}}
{{- $process := index . 1 -}}
{{- $name := printf "%s-%s" (include "pumice.fullname" $root) $process -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-election
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "pumice.labels" (list $root $process) | nindent 4 }}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]  # what does not exist yet cannot be named
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ $name }}]
  verbs: [get, watch, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-election
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "pumice.labels" (list $root $process) | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}-election}
subjects:
- {kind: ServiceAccount, name: {{ index . 2 }}, namespace: {{ $root.Release.Namespace }}}
{{- end -}}
