{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- define "sluice.scheme" }}{{ if .Values.tlsSecret }}https{{ else }}http{{ end }}{{ end }}

{{- define "sluice.url" }}{{ .Values.externalURL | default (printf "%s://%s.%s:9090%s" (include "sluice.scheme" .) (include "sluice.name" .) .Release.Namespace .Values.basePath) }}{{ end }}

{{- define "sluice.probe" -}}
httpGet:
  path: {{ .Values.basePath }}/{{ .path }}
  port: http
  scheme: {{ include "sluice.scheme" . | upper }}
periodSeconds: {{ .period }}
timeoutSeconds: 6
failureThreshold: {{ .failures }}
{{- end }}
