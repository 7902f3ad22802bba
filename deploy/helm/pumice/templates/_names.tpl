{{- define "pumice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "pumice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "pumice.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "pumice.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of an object; the argument is a list of the root and the process, or "". */}}
{{- define "pumice.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{ include "pumice.selector" . }}
{{- end -}}

{{- define "pumice.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "pumice.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Processes that are switched on, as a JSON list. */}}
{{- define "pumice.processes" -}}
{{- $found := list -}}
{{- range $name := list "scheduler" "controllers" "webhooks" -}}
{{- if (index $.Values $name).enabled -}}{{- $found = append $found $name -}}{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* The Deployment of a process: its own, or the one of all. The argument is a list of the root and the process. */}}
{{- define "pumice.deployment" -}}
{{- $root := index . 0 -}}
{{- include "pumice.fullname" $root }}{{ if eq $root.Values.mode "separate" }}-{{ index . 1 }}{{ end }}
{{- end -}}

{{/* Whose pods they are: the process, or "all". */}}
{{- define "pumice.component" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.mode "separate" }}{{ index . 1 }}{{ else }}all{{ end -}}
{{- end -}}

{{- define "pumice.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "pumice.port" -}}
{{- get (dict "scheduler" 8080 "controllers" 8081 "webhooks" 8082) . -}}
{{- end -}}

{{- define "pumice.certificateSecret" -}}
{{ include "pumice.fullname" . }}-webhooks-tls
{{- end -}}

{{/* The user as whom the controllers write. */}}
{{- define "pumice.controllersUser" -}}
{{- $account := include "pumice.deployment" (list . (include "pumice.component" (list . "controllers"))) -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ $account }}
{{- end -}}

{{/* What the code says about admission, with the names of this release; the argument is a list of the root and the file. */}}
{{- define "pumice.admission" -}}
{{- $root := index . 0 -}}
{{- $service := printf "%s-webhooks" (include "pumice.fullname" $root) -}}
{{- $first := first $root.Values.schedulerNames -}}
{{- $others := rest $root.Values.schedulerNames | default (list $first) | toJson | trimPrefix "[" | trimSuffix "]" -}}
{{- $root.Files.Get (printf "admission/%s-%s.yaml" $root.Values.webhooks.queueAccess (index . 1))
  | replace "@NAMESPACE@" $root.Release.Namespace
  | replace "@SERVICE@" $service
  | replace "@CONFIGURATION@" $service
  | replace "@CONTROLLERS@" (include "pumice.controllersUser" $root)
  | replace "\"@SCHEDULERS@\"" $others
  | replace "@SCHEDULER@" $first -}}
{{- end -}}

{{/* The claim of the volume that the record's SQLite file is on. */}}
{{- define "pumice.recordClaim" -}}
{{- .Values.record.sqlite.existingClaim | default (printf "%s-record" (include "pumice.fullname" .)) -}}
{{- end -}}
