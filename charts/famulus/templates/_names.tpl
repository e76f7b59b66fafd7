{{- /* Names and labels. */}}

{{- define "famulus.name" -}}
{{ .Release.Name }}
{{- end }}

{{- define "famulus.sandbox" -}}
{{ .Values.sandbox.namespace | default (printf "%s-sandbox" .Release.Namespace) }}
{{- end }}

{{- /* For cluster-scoped objects: no two releases share it. A namespace has no dot. */}}
{{- define "famulus.clusterName" -}}
{{ .Release.Namespace }}.{{ .Release.Name }}
{{- end }}

{{- define "famulus.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: famulus
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- if $root.Values.hooks.enabled }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end }}
{{- end }}

{{- define "famulus.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: famulus
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "famulus.rootKeySecret" -}}
{{ .Values.secrets.rootKey.existingSecret | default (printf "%s-root-key" .Release.Name) }}
{{- end }}

{{- define "famulus.tokenSecret" -}}
{{ .Values.secrets.token.existingSecret | default (printf "%s-token" .Release.Name) }}
{{- end }}

{{- /* The Secret with the URL, and with the password where Postgres is ours. */}}
{{- define "famulus.databaseSecret" -}}
{{ .Values.database.existingSecret | default .Values.postgres.existingSecret | default (printf "%s-database" .Release.Name) }}
{{- end }}

{{- define "famulus.priorityClass" -}}
{{ .Values.priorityClass.name | default (ternary (include "famulus.clusterName" .) "" .Values.priorityClass.create) }}
{{- end }}

{{- /* What Kubernetes calls the address of a Service in the environment of Pods beside it. */}}
{{- define "famulus.serviceHost" -}}
{{ printf "$(%s_SERVICE_HOST)" (index . 0 | upper | replace "-" "_") }}
{{- end }}

{{- /* An image: part, and of the runner its flavour where it is not the release's. */}}
{{- define "famulus.image" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $image := $root.Values.image -}}
{{- $own := index $image $part -}}
{{- $suffix := "" -}}
{{- $digest := $own.digest -}}
{{- if eq $part "runner" -}}
{{- $flavour := $own.flavour -}}
{{- if gt (len .) 2 }}{{ $flavour = index . 2 }}{{ end -}}
{{- $suffix = printf "-%s" $flavour -}}
{{- $digest = (index $own $flavour).digest -}}
{{- end -}}
{{- if $own.reference -}}
{{ $own.reference }}
{{- else if $digest -}}
{{ $image.registry }}/{{ $part }}@{{ $digest }}
{{- else -}}
{{ $image.registry }}/{{ $part }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ $suffix }}
{{- end -}}
{{- end }}
