{{- define "katsubushi.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "katsubushi.selector" -}}
app.kubernetes.io/name: katsubushi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "katsubushi.metadata" -}}
name: {{ include "katsubushi.name" . }}
{{ include "katsubushi.belongs" . }}
{{- end }}

{{- define "katsubushi.belongs" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "katsubushi.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* "true" where daemons listen on a unix socket instead of a port. */ -}}
{{- define "katsubushi.onSocket" -}}
{{- if has .Values.mode (list "daemonset" "sidecar") }}true{{ end }}
{{- end }}

{{- /* The ports that a daemon opens, by name. */ -}}
{{- define "katsubushi.ports" -}}
{{- $ports := omit .Values.ports "memcached" }}
{{- if not (include "katsubushi.onSocket" .) }}{{ $ports = .Values.ports }}{{ end }}
{{- $taken := dict }}
{{- range $name, $port := $ports }}
{{- if $port }}
{{- with get $taken (toString $port) }}{{ fail (printf "ports.%s and ports.%s are the same" . $name) }}{{ end }}
{{- $_ := set $taken (toString $port) $name }}
{{ $name }}: {{ $port }}
{{- end }}
{{- end }}
{{- end }}

{{- /* An item of env, for the URL of a store. */ -}}
{{- define "katsubushi.url" -}}
- name: {{ .variable }}
{{- if .of.url }}
  value: {{ .of.url | quote }}
{{- else }}
  valueFrom:
    secretKeyRef: {name: {{ required "store.url or store.secret.name is missing" .of.secret.name }}, key: {{ .of.secret.key }}}
{{- end }}
{{- end }}

{{- define "katsubushi.container" -}}
{{- $v := .Values }}
{{- $socket := include "katsubushi.onSocket" . }}
{{- $http := eq $v.mode "sidecar" | ternary "ids-http" "http" -}}
name: katsubushi
image: {{ printf "%s:%s" $v.image.repository (default .Chart.AppVersion $v.image.tag) }}
imagePullPolicy: {{ $v.image.pullPolicy }}
args:
  {{- if eq $v.mode "statefulset" }}
  - -worker-id=ordinal
  - -state-dir=/var/lib/katsubushi
  {{- else }}
  - -state-dir=none
  {{- if $v.store.autoInit }}
  - -lease-auto-init
  {{- end }}
  {{- end }}
  {{- if $socket }}
  - -sock={{ $v.socket.directory }}/katsubushi.sock
  - -sock-mode={{ $v.socket.mode }}
  {{- else }}
  - -port={{ $v.ports.memcached }}
  - -advertise={{ $v.advertise }}:{{ $v.ports.memcached }}
  {{- end }}
  {{- range $name, $port := omit $v.ports "memcached" }}
  {{- if $port }}
  - -{{ $name }}-port={{ $port }}
  {{- end }}
  {{- end }}
  {{- if $v.names }}
  - -names=/etc/katsubushi/names
  {{- end }}
  {{- if and $v.tls.secret (not $socket) }}
  - -tls-cert=/etc/katsubushi-tls/tls.crt
  - -tls-key=/etc/katsubushi-tls/tls.key
  {{- end }}
  {{- if $v.auth.secret }}
  - -auth-file=/etc/katsubushi-auth/users
  {{- with $v.auth.forwardUser }}
  - -forward-user={{ . }}
  - -forward-password-file=/etc/katsubushi-auth/forward-password
  {{- end }}
  {{- end }}
  {{- if not $socket }}
  - -shutdown-delay={{ $v.shutdownDelaySeconds }}s
  {{- end }}
  - -drain-timeout={{ $v.drainTimeoutSeconds }}s
  - -log-format=json
  {{- range $v.args }}
  - {{ . | quote }}
  {{- end }}
env:
  {{- if not $socket }}
  - name: POD_IP
    valueFrom:
      fieldRef: {fieldPath: status.podIP}
  {{- end }}
  {{- if ne $v.mode "statefulset" }}
  {{- include "katsubushi.url" (dict "variable" "KATSUBUSHI_STORE" "of" $v.store) | nindent 2 }}
  {{- end }}
  {{- if or $v.counters.url $v.counters.secret.name }}
  {{- include "katsubushi.url" (dict "variable" "KATSUBUSHI_COUNTERS" "of" $v.counters) | nindent 2 }}
  {{- end }}
  {{- with $v.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  {{- range $name, $port := include "katsubushi.ports" . | fromYaml }}
  - {name: {{ eq $name "http" | ternary $http $name }}, containerPort: {{ $port }}}
  {{- end }}
# Alive is a daemon that answers, also one that waits for its clock or its lease: a restart would not help it, so only
# readiness asks for ids. The containers beside a sidecar start when it issues ids.
startupProbe:
  httpGet: {path: {{ eq $v.mode "sidecar" | ternary "/readyz" "/healthz" }}, port: {{ $http }}}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: {{ eq $v.mode "sidecar" | ternary 600 60 }}
readinessProbe:
  httpGet: {path: /readyz, port: {{ $http }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /healthz, port: {{ $http }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
resources:
  {{- toYaml $v.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
  seccompProfile:
    {{- toYaml $v.seccompProfile | nindent 4 }}
volumeMounts:
  {{- if eq $v.mode "statefulset" }}
  - {name: state, mountPath: /var/lib/katsubushi}
  {{- end }}
  {{- if $socket }}
  - {name: katsubushi-socket, mountPath: {{ $v.socket.directory }}}
  {{- end }}
  {{- range $name := include "katsubushi.files" . | fromYaml | keys | sortAlpha }}
  - {name: {{ $name }}, mountPath: /etc/{{ $name }}, readOnly: true}
  {{- end }}
{{- end }}

{{- /* The volumes of files that are mounted at /etc/NAME. The daemon may read them, and no other user. */ -}}
{{- define "katsubushi.files" -}}
{{- if .Values.names }}
katsubushi:
  configMap: {name: {{ include "katsubushi.name" . }}}
{{- end }}
{{- if and .Values.tls.secret (not (include "katsubushi.onSocket" .)) }}
katsubushi-tls:
  secret: {secretName: {{ .Values.tls.secret }}, defaultMode: 0440}
{{- end }}
{{- if .Values.auth.secret }}
katsubushi-auth:
  secret: {secretName: {{ .Values.auth.secret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "katsubushi.volumes" -}}
{{- range $name, $source := include "katsubushi.files" . | fromYaml }}
- name: {{ $name }}
  {{- toYaml $source | nindent 2 }}
{{- end }}
{{- if eq .Values.mode "daemonset" }}
- name: katsubushi-socket
  hostPath: {path: {{ .Values.socket.directory }}, type: DirectoryOrCreate}
{{- else if eq .Values.mode "sidecar" }}
- name: katsubushi-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
{{- end }}

{{- /* For another chart, among initContainers of a pod: the daemon starts before its containers and ends after them. */ -}}
{{- define "katsubushi.sidecar" -}}
- {{ include "katsubushi.container" . | nindent 2 | trim }}
  restartPolicy: Always
{{- end }}
