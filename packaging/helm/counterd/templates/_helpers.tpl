{{- define "counterd.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "counterd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: counterd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels that select the nodes. */}}
{{- define "counterd.selector" -}}
app.kubernetes.io/name: counterd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end }}

{{- define "counterd.sentinelSelector" -}}
app.kubernetes.io/name: counterd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: sentinel
{{- end }}

{{- define "counterd.nodes" -}}
{{- if eq .Values.mode "single" }}1{{ else }}{{ .Values.nodes }}{{ end -}}
{{- end }}

{{- define "counterd.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "counterd.secret" -}}
{{ .Values.auth.existingSecret | default (include "counterd.name" .) }}
{{- end }}

{{- define "counterd.sentinel" -}}
{{- if and (eq .Values.mode "replication") .Values.replication.sentinel.enabled }}true{{ end -}}
{{- end }}

{{- /* The name of a pod in DNS, behind its own: pods call each other by it before they are ready. */}}
{{- define "counterd.domain" -}}
{{ include "counterd.name" . }}-headless.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "counterd.sentinelDomain" -}}
{{ include "counterd.name" . }}-sentinel.{{ .Release.Namespace }}.svc
{{- end }}

{{- /* Pod Security Standards, restricted. 65532 is the user of the image, and its group. */}}
{{- define "counterd.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "counterd.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "counterd.spread" -}}
{{- $selector := .selector -}}
{{- range .constraints }}
- maxSkew: 1
  topologyKey: {{ .topologyKey }}
  whenUnsatisfiable: {{ .whenUnsatisfiable }}
  labelSelector:
    matchLabels: {{- $selector | nindent 6 }}
{{- end }}
{{- end }}

{{- define "counterd.scheduling" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* Values that no schema can check. */}}
{{- define "counterd.checked" -}}
{{- if and (eq .Values.mode "cluster") (not .Values.cluster.etcd) }}{{ fail "mode cluster: want the URLs of etcd's members in cluster.etcd" }}{{ end -}}
{{- range $name := list "bind" "port" "tls-port" "dir" "config" "schema" "requirepass" "requirepass-file" "masterauth" "masterauth-file" "replicaof" "metrics-addr" "protected-mode" "unixsocket" }}
{{- if hasKey $.Values.settings $name }}{{ fail (printf "settings.%s: the chart sets it" $name) }}{{ end -}}
{{- end }}
{{- range $name, $_ := .Values.settings }}
{{- if or (hasPrefix "cluster-" $name) (hasPrefix "replica-announce-" $name) }}{{ fail (printf "settings.%s: the chart sets it" $name) }}{{ end -}}
{{- end }}
{{- end }}
