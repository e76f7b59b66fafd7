{{- /* The Pod of a restore: root, its account behind the release's name, and the words after `famulus`. */}}
{{- define "famulus.restorePod" -}}
{{- $root := index . 0 -}}
{{- $account := index . 1 -}}
{{- $backup := $root.Values.backup -}}
{{- $identity := $backup.identity.existingSecret -}}
restartPolicy: Never
serviceAccountName: {{ include "famulus.name" $root }}-{{ $account }}
{{ include "famulus.pod" (list $root $backup 70 "api") }}
containers:
  - name: restore
    {{- include "famulus.container" (list $root "backup") | nindent 4 }}
    args: {{ toJson (index . 2) }}
    env:
      {{- if eq $account "restore" }}
      {{- include "famulus.databaseUrl" $root | nindent 6 }}
      {{- end }}
      - { name: FAMULUS_DATA_DIR, value: /var/lib/famulus }
      {{- include "famulus.clusterEnvironment" $root | nindent 6 }}
      {{- if eq $account "restore" }}
      {{- include "famulus.keeperKeyEnvironment" $root | nindent 6 }}
      {{- with include "famulus.signalKeyEnvironment" $root }}{{ . | nindent 6 }}{{ end }}
      {{- end }}
      - { name: FAMULUS_TELEMETRY__LOG, value: {{ $root.Values.app.log | quote }} }
      - { name: FAMULUS_TELEMETRY__FORMAT, value: json }
      {{- include "famulus.storeEnvironment" (list $root $identity) | nindent 6 }}
    resources: {{ toYaml $backup.resources | nindent 6 }}
    volumeMounts:
      - { name: data, mountPath: /var/lib/famulus }
      - { name: tmp, mountPath: /tmp }
      {{- if eq $account "restore" }}
      {{- include "famulus.keeperKeyMount" $root | nindent 6 }}
      {{- with include "famulus.signalKeyMount" $root }}{{ . | nindent 6 }}{{ end }}
      {{- end }}
      {{- include "famulus.storeMounts" (list $root $identity) | nindent 6 }}
volumes:
  - name: data
    emptyDir: { sizeLimit: 64Mi }
  - name: tmp
    emptyDir: { sizeLimit: 256Mi }
  {{- if eq $account "restore" }}
  {{- include "famulus.keeperKeyVolume" $root | nindent 2 }}
  {{- with include "famulus.signalKeyVolume" $root }}{{ . | nindent 2 }}{{ end }}
  {{- end }}
  {{- include "famulus.storeVolumes" (list $root $identity) | nindent 2 }}
{{- end }}
