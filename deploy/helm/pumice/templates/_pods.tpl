{{/* One container; the argument is a list of the root and the process. */}}
{{- define "pumice.container" -}}
{{- $root := index . 0 -}}
{{- $process := index . 1 -}}
{{- $values := index $root.Values $process -}}
- name: {{ $process }}
  image: {{ include "pumice.image" $root | quote }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args:
  - {{ $process }}
  - --listen={{ $root.Values.listenHost }}:{{ include "pumice.port" $process }}
{{ include (printf "pumice.args.%s" $process) $root | indent 2 }}
{{- range $values.extraArgs }}
  - {{ . | quote }}
{{- end }}
  env:
  - name: KUBE_POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- if or (eq $process "scheduler") (and (eq $process "controllers") (ne $root.Values.record.kind "none")) }}
  - name: KUBE_POD_NAME  # its lease says that this pod can be asked
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- if and (eq $process "controllers") (eq $root.Values.record.kind "postgresql") }}
  - name: PUMICE_RECORD  # with a password: not among the arguments, which every process of the node may read
    valueFrom: {secretKeyRef: {name: {{ $root.Values.record.postgresql.secretName }}, key: {{ $root.Values.record.postgresql.secretKey }}}}
{{- end }}
{{- if eq $process "controllers" }}
  - name: HELM_RELEASE_NAME  # the ConfigMap of discovery is named after it
    value: {{ include "pumice.fullname" $root }}
{{- end }}
  ports:
  - name: {{ include "pumice.healthPort" $process }}
    containerPort: {{ include "pumice.port" $process }}
{{- if eq $process "webhooks" }}
  - name: webhooks
    containerPort: 8443
{{- end }}
  # /livez says that the loop comes round; it never depends on the API server, so an outage there restarts nobody here.
  livenessProbe:
    httpGet: {path: /livez, port: {{ include "pumice.healthPort" $process }}}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  readinessProbe:
    httpGet: {path: /readyz, port: {{ include "pumice.healthPort" $process }}}
    periodSeconds: 5
    timeoutSeconds: 5
{{- if eq $process "webhooks" }}
  # Until every API server knows that this replica is leaving, it goes on answering: nothing is refused during an update.
  lifecycle:
    preStop: {sleep: {seconds: 5}}
{{- end }}
  resources: {{- toYaml $values.resources | nindent 4 }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
  volumeMounts:
  - {name: scratch, mountPath: /tmp}
{{- if eq $process "scheduler" }}
  - {name: policy, mountPath: /etc/pumice, readOnly: true}
{{- if $values.flightRecorder.enabled }}
  - {name: flight, mountPath: /var/lib/pumice-flight}
{{- end }}
{{- end }}
{{- if and (eq $process "controllers") (eq $root.Values.record.kind "sqlite") }}
  - {name: record, mountPath: /var/lib/pumice}
{{- end }}
{{- if and (eq $process "webhooks") (eq $root.Values.webhooks.certificates.source "cert-manager") }}
  - {name: certificate, mountPath: /etc/pumice-certificate, readOnly: true}
{{- end }}
{{- end -}}

{{- define "pumice.healthPort" -}}
{{- get (dict "scheduler" "http-scheduler" "controllers" "http-control" "webhooks" "http-webhooks") . -}}
{{- end -}}

{{- define "pumice.args.election" -}}
{{- if .Values.leaderElection -}}
- --leader-elect
{{- else -}}
- --no-leader-elect
{{- end }}
- --lease-namespace=$(KUBE_POD_NAMESPACE)
{{- end -}}

{{- define "pumice.args.scheduler" -}}
- --policy=/etc/pumice/policy.yaml
- --default-queue={{ .Values.scheduler.defaultQueue }}
{{- if .Values.queues }}
- --queues=/etc/pumice/queues.yaml
{{- end }}
{{- range .Values.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
{{- range $resource, $dollars := .Values.scheduler.prices }}
- --price={{ $resource }}={{ $dollars }}
{{- end }}
{{- if not .Values.scheduler.volcanoMetrics }}
- --no-volcano-metrics
{{- end }}
{{- if .Values.scheduler.flightRecorder.enabled }}
- --flight-recorder=/var/lib/pumice-flight/flight
- --flight-recorder-limit={{ .Values.scheduler.flightRecorder.limitMiB }}
{{- end }}
{{ include "pumice.args.election" . }}
- --lease-name={{ include "pumice.fullname" . }}-scheduler
{{- end -}}

{{- define "pumice.args.controllers" -}}
{{- range .Values.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
{{ include "pumice.args.election" . }}
- --lease-name={{ include "pumice.fullname" . }}-controllers
{{- with .Values.record }}
{{- if eq .kind "sqlite" }}
- --record=sqlite:////var/lib/pumice/record.db
{{- end }}
{{- if ne .kind "none" }}
- --record-keep-days={{ .keepDays }}
- --record-keep-detail-days={{ .keepDetailDays }}
- --record-scheduler={{ include "pumice.fullname" $ }}-scheduler
- {{ if .logs }}--record-logs{{ else }}--no-record-logs{{ end }}
{{- range $resource, $dollars := $.Values.scheduler.prices }}
- --price={{ $resource }}={{ $dollars }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "pumice.args.webhooks" -}}
{{- $service := printf "%s-webhooks" (include "pumice.fullname" .) -}}
- --bind={{ .Values.listenHost }}:8443
- --service={{ $service }}
- --configuration={{ $service }}
{{- if eq .Values.webhooks.certificates.source "cert-manager" }}
- --certificate-folder=/etc/pumice-certificate
- --no-inject-ca
{{- else }}
- --secret={{ include "pumice.certificateSecret" . }}
{{- end }}
{{- range .Values.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
- --queue-access={{ .Values.webhooks.queueAccess }}
- --controller-user={{ include "pumice.controllersUser" . }}
{{- end -}}

{{/* A Deployment's pods; the argument is a dict of root, component, processes and values (where to run). */}}
{{- define "pumice.pods" -}}
{{- $root := .root -}}
metadata:
  labels: {{- include "pumice.labels" (list $root .component) | nindent 4 }}
    {{- with $root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "pumice.deployment" (list $root .component) }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  terminationGracePeriodSeconds: 30
  {{- with .values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations: {{- toYaml . | nindent 2 }}
  {{- end }}
  affinity:
  {{- if .values.affinity }}
    {{- toYaml .values.affinity | nindent 4 }}
  {{- else }}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "pumice.selector" (list $root .component) | nindent 14 }}
  {{- end }}
  containers:
  {{- range .processes }}
  {{- include "pumice.container" (list $root .) | nindent 2 }}
  {{- end }}
  volumes:
  - name: scratch
    emptyDir: {sizeLimit: 64Mi}
  {{- if has "scheduler" .processes }}
  - name: policy
    configMap: {name: {{ include "pumice.fullname" $root }}-policy}
  {{- if $root.Values.scheduler.flightRecorder.enabled }}
  - name: flight
    emptyDir: {sizeLimit: {{ add $root.Values.scheduler.flightRecorder.limitMiB 16 }}Mi}
  {{- end }}
  {{- end }}
  {{- if and (has "controllers" .processes) (eq $root.Values.record.kind "sqlite") }}
  - name: record
    persistentVolumeClaim: {claimName: {{ include "pumice.recordClaim" $root }}}
  {{- end }}
  {{- if and (has "webhooks" .processes) (eq $root.Values.webhooks.certificates.source "cert-manager") }}
  - name: certificate
    secret: {secretName: {{ include "pumice.certificateSecret" $root }}}
  {{- end }}
{{- end -}}
