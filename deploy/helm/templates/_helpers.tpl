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

{{- /* What names secrets in an address: a user, or such a parameter. */}}
{{- define "sluice.hasSecret" }}(?i)://[^/?#]*@|[?&][^=&]*(pass|secret|token|key)[^=&]*={{ end }}

{{- /* The text of a number, which YAML makes a float, or of another scalar. */}}
{{- define "sluice.text" -}}
{{- $name := first . }}{{ $value := last . -}}
{{- if not (kindIs "float64" $value) -}}
{{ $value }}
{{- else if ge $value 9007199254740992.0 -}}
{{- fail (printf "settings.%s: put quotation marks around a number of this size" $name) -}}
{{- else if eq $value (floor $value) -}}
{{ printf "%.0f" $value }}
{{- else -}}
{{ $value }}
{{- end -}}
{{- end }}

{{- /* The text of a setting, from its name and value. */}}
{{- define "sluice.setting" -}}
{{- $name := first . }}{{ $value := last . -}}
{{- $elsewhere := dict
  "profile" "the chart sets it" "open-to-network" "the chart's instance is hosted, and requires keys"
  "data" "the chart sets it" "addr" "the chart sets it" "s3-addr" "the chart sets it" "url" "the chart sets it"
  "admin-addr" "set metrics.enabled" "base-path" "set basePath" "external-url" "set externalURL"
  "reads" "set reads at the top" "receiver" "set receiver at the top"
  "tls-cert" "set tlsSecret" "tls-key" "set tlsSecret" "bytes" "set store.bytes"
  "meta" "set store.meta, the name of a Secret" "key" "settings have no secrets" -}}
{{- with get $elsewhere $name }}{{ fail (printf "settings.%s is not accepted: %s" $name .) }}{{ end -}}
{{- $texts := list }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}{{ $texts = append $texts (include "sluice.text" (list $name .)) }}{{ end -}}
{{- $text := join "," $texts -}}
{{- if regexMatch (include "sluice.hasSecret" .) $text }}{{ fail (printf "settings.%s has a secret, and settings have none" $name) }}{{ end -}}
{{ $text }}
{{- end }}
