{{- /*
The Pod of a backup: root, the words after `famulus`, and whether the ConfigMap of the app is there. The private key
is for those alone who verify, and so is the room that a Postgres takes which is thrown away; the key for what plugins
keep is for the others.
*/}}
{{- define "famulus.backupPod" -}}
{{- $root := index . 0 -}}
{{- $words := index . 1 -}}
{{- $hasConfig := index . 2 -}}
{{- $verifies := has "verify" $words -}}
{{- $backup := $root.Values.backup -}}
{{- $identity := and $verifies $backup.identity.existingSecret -}}
restartPolicy: Never
serviceAccountName: {{ include "famulus.name" $root }}-backup
{{ include "famulus.pod" (list $root $backup 70 "api") }}
containers:
  - name: backup
    {{- include "famulus.container" (list $root "backup") | nindent 4 }}
    args: {{ toJson $words }}
    env:
      - name: DATABASE_URL
        valueFrom:
          secretKeyRef:
            name: {{ include "famulus.backupDatabaseSecret" $root }}
            key: {{ ternary $backup.database.key "url" (not (empty $backup.database.existingSecret)) }}
      - { name: FAMULUS_DATA_DIR, value: /var/lib/famulus }
      {{- include "famulus.clusterEnvironment" $root | nindent 6 }}
      {{- if not $verifies }}
      {{- include "famulus.keeperKeyEnvironment" $root | nindent 6 }}
      {{- with include "famulus.signalKeyEnvironment" $root }}{{ . | nindent 6 }}{{ end }}
      {{- end }}
      - { name: FAMULUS_TELEMETRY__LOG, value: {{ $root.Values.app.log | quote }} }
      - { name: FAMULUS_TELEMETRY__FORMAT, value: json }
      {{- include "famulus.storeEnvironment" (list $root $identity) | nindent 6 }}
      {{- with $backup.recipient }}
      - { name: FAMULUS_BACKUP__RECIPIENT, value: {{ quote . }} }
      {{- end }}
      {{- with $backup.keep }}
      - { name: FAMULUS_BACKUP__KEEP_HOURLY, value: {{ int .hourly | quote }} }
      - { name: FAMULUS_BACKUP__KEEP_DAILY, value: {{ int .daily | quote }} }
      - { name: FAMULUS_BACKUP__KEEP_MONTHLY, value: {{ int .monthly | quote }} }
      {{- if ne (toString .yearly) "" }}
      - { name: FAMULUS_BACKUP__KEEP_YEARLY, value: {{ int .yearly | quote }} }
      {{- end }}
      {{- end }}
      {{- if $hasConfig }}
      - { name: FAMULUS_CONFIG, value: /etc/famulus/config.toml }
      {{- end }}
    resources: {{ toYaml $backup.resources | nindent 6 }}
    volumeMounts:
      - { name: data, mountPath: /var/lib/famulus }
      - { name: token, mountPath: /var/lib/famulus/token, subPath: token, readOnly: true }
      - { name: root-key, mountPath: /run/famulus/root-key, readOnly: true }
      - { name: tmp, mountPath: /tmp }
      {{- include "famulus.storeMounts" (list $root $identity) | nindent 6 }}
      {{- if $verifies }}
      - { name: shared-memory, mountPath: /dev/shm }
      {{- else }}
      {{- include "famulus.keeperKeyMount" $root | nindent 6 }}
      {{- with include "famulus.signalKeyMount" $root }}{{ . | nindent 6 }}{{ end }}
      {{- end }}
      {{- if $hasConfig }}
      - { name: config, mountPath: /etc/famulus, readOnly: true }
      {{- end }}
volumes:
  - name: data
    emptyDir: { sizeLimit: {{ ternary $backup.verify.size "64Mi" $verifies }} }
  - name: tmp
    emptyDir: { sizeLimit: 256Mi }
  - name: token
    secret:
      secretName: {{ include "famulus.tokenSecret" $root }}
      defaultMode: 0440
      items: [{ key: token, path: token }]
  - name: root-key
    secret:
      secretName: {{ include "famulus.rootKeySecret" $root }}
      defaultMode: 0440
      items: [{ key: key, path: key }]
  {{- include "famulus.storeVolumes" (list $root $identity) | nindent 2 }}
  {{- if $verifies }}
  # Building indexes side by side needs more than the 64 MiB that containers get.
  - name: shared-memory
    emptyDir: { medium: Memory, sizeLimit: 256Mi }
  {{- else }}
  {{- include "famulus.keeperKeyVolume" $root | nindent 2 }}
  {{- with include "famulus.signalKeyVolume" $root }}{{ . | nindent 2 }}{{ end }}
  {{- end }}
  {{- if $hasConfig }}
  - name: config
    configMap: { name: {{ include "famulus.name" $root }} }
  {{- end }}
{{- end }}
