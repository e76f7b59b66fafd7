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

{{- /*
Whether backups are taken: of a Postgres of one's own by a role that was given. Values that are reused from a release
before there were backups have none of these.
*/}}
{{- define "famulus.backups" -}}
{{- with .Values.backup }}
{{- if and .enabled (or (not $.Values.database.existingSecret) .database.existingSecret) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* Whether the release begins with a backup. Values that are reused from an older one do not know of it. */}}
{{- define "famulus.restores" -}}
{{- with .Values.restore }}{{ if .from }}true{{ end }}{{ end }}
{{- end }}

{{- /* Who asks runners for what plugins keep, and gives it back, as a list in JSON. */}}
{{- define "famulus.keepers" -}}
{{- $keepers := list }}
{{- if include "famulus.backups" . }}{{ $keepers = append $keepers "backup" }}{{ end }}
{{- if include "famulus.restores" . }}{{ $keepers = append $keepers "restore" }}{{ end }}
{{- toJson $keepers }}
{{- end }}

{{- /* The Secret with the key for that. Values that are reused from an older release do not know of it. */}}
{{- define "famulus.keeperKeySecret" -}}
{{- $given := .Values.secrets.keeperKey | default dict -}}
{{- $given.existingSecret | default (printf "%s-keeper-key" .Release.Name) }}
{{- end }}

{{- /* Whether backups hold what the release's own daemon of signal-cli keeps. */}}
{{- define "famulus.signalHeld" -}}
{{- if and (include "famulus.signalImage" .) (include "famulus.keepers" . | fromJsonArray) }}true{{ end }}
{{- end }}

{{- /* The Secret with the key for that, which the daemon's Pod has as well: so it is no key for anything else. */}}
{{- define "famulus.signalKeySecret" -}}
{{ .Release.Name }}-signal-key
{{- end }}

{{- define "famulus.signalKeyEnvironment" -}}
{{- if include "famulus.signalHeld" . }}
- { name: FAMULUS_BACKUP__CHANNELS__SIGNAL__URL, value: "http://{{ include "famulus.name" . }}-signal:8082" }
- { name: FAMULUS_BACKUP__CHANNELS__SIGNAL__KEY_FILE, value: /run/famulus/signal-key/key }
{{- end }}
{{- end }}

{{- define "famulus.signalKeyMount" -}}
{{- if include "famulus.signalHeld" . }}
- { name: signal-key, mountPath: /run/famulus/signal-key, readOnly: true }
{{- end }}
{{- end }}

{{- define "famulus.signalKeyVolume" -}}
{{- if include "famulus.signalHeld" . }}
- name: signal-key
  secret:
    secretName: {{ include "famulus.signalKeySecret" . }}
    defaultMode: 0440
    items: [{ key: key, path: key }]
{{- end }}
{{- end }}

{{- define "famulus.keeperKeyEnvironment" -}}
- { name: FAMULUS_CLUSTER__KEEPER_KEY_FILE, value: /run/famulus/keeper-key/key }
{{- end }}

{{- define "famulus.keeperKeyMount" -}}
- { name: keeper-key, mountPath: /run/famulus/keeper-key, readOnly: true }
{{- end }}

{{- define "famulus.keeperKeyVolume" -}}
- name: keeper-key
  secret:
    secretName: {{ include "famulus.keeperKeySecret" . }}
    defaultMode: 0440
    items: [{ key: key, path: key }]
{{- end }}

{{- /* Whether they are restored on trial: encrypted ones only where their key is. */}}
{{- define "famulus.backupsVerified" -}}
{{- if include "famulus.backups" . }}
{{- with .Values.backup }}
{{- if and .verify.enabled (or (not .recipient) .identity.existingSecret) }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Secret of the role for backups. */}}
{{- define "famulus.backupDatabaseSecret" -}}
{{ .Values.backup.database.existingSecret | default (printf "%s-backup-database" .Release.Name) }}
{{- end }}

{{- define "famulus.backupClaim" -}}
{{ .Values.backup.persistence.existingClaim | default (printf "%s-backup" .Release.Name) }}
{{- end }}

{{- define "famulus.backupStorageClass" -}}
{{ .Values.backup.persistence.storageClass | default .Values.postgres.persistence.storageClass }}
{{- end }}

{{- define "famulus.priorityClass" -}}
{{ .Values.priorityClass.name | default (ternary (include "famulus.clusterName" .) "" .Values.priorityClass.create) }}
{{- end }}

{{- /* What Kubernetes calls the address of a Service in the environment of Pods beside it. */}}
{{- define "famulus.serviceHost" -}}
{{ printf "$(%s_SERVICE_HOST)" (index . 0 | upper | replace "-" "_") }}
{{- end }}

{{- /*
An image: part, and of the runner its flavour where it is not the release's. That of backups is built on the one of
Postgres, and stands beside it.
*/}}
{{- define "famulus.image" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $image := $root.Values.image -}}
{{- $own := index $image $part -}}
{{- $repository := $part -}}
{{- $suffix := "" -}}
{{- $digest := $own.digest -}}
{{- if eq $part "runner" -}}
{{- $flavour := $own.flavour -}}
{{- if gt (len .) 2 }}{{ $flavour = index . 2 }}{{ end -}}
{{- $suffix = printf "-%s" $flavour -}}
{{- $digest = (index $own $flavour).digest -}}
{{- else if eq $part "backup" -}}
{{- $repository = "postgres" -}}
{{- $suffix = "-backup" -}}
{{- end -}}
{{- if $own.reference -}}
{{ $own.reference }}
{{- else if $digest -}}
{{ $image.registry }}/{{ $repository }}@{{ $digest }}
{{- else -}}
{{ $image.registry }}/{{ $repository }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ $suffix }}
{{- end -}}
{{- end }}

{{- /* The image of the release's own daemon of signal-cli. Values that are reused from an older release have none. */}}
{{- define "famulus.signalImage" -}}
{{- dig "image" "" (.Values.signal | default dict) -}}
{{- end }}

{{- /* The address of a daemon that is not the release's. */}}
{{- define "famulus.signalElsewhere" -}}
{{- dig "url" "" (.Values.app.signal | default dict) -}}
{{- end }}

{{- define "famulus.signalUrl" -}}
{{- if include "famulus.signalImage" . -}}
http://{{ include "famulus.name" . }}-signal:8080
{{- else -}}
{{- include "famulus.signalElsewhere" . -}}
{{- end -}}
{{- end }}
