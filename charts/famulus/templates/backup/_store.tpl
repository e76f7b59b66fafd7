{{- /* Where backups are kept, for a container and its Pod: root, and whether the private key is wanted. */}}

{{- define "famulus.storeEnvironment" -}}
{{- $root := index . 0 -}}
{{- $identity := index . 1 -}}
{{- $backup := $root.Values.backup -}}
{{- $s3 := $backup.s3 -}}
{{- with $s3 }}
{{- if .bucket }}
- { name: FAMULUS_BACKUP__S3__BUCKET, value: {{ quote .bucket }} }
{{- with .prefix }}
- { name: FAMULUS_BACKUP__S3__PREFIX, value: {{ quote . }} }
{{- end }}
{{- with .endpoint }}
- { name: FAMULUS_BACKUP__S3__ENDPOINT, value: {{ quote . }} }
{{- end }}
- { name: FAMULUS_BACKUP__S3__REGION, value: {{ quote .region }} }
- name: FAMULUS_BACKUP__S3__ACCESS_KEY_ID
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: access-key-id } }
- { name: FAMULUS_BACKUP__S3__SECRET_ACCESS_KEY__FILE, value: /run/famulus/s3/secret-access-key }
{{- if .ca.existingSecret }}
- { name: FAMULUS_BACKUP__S3__CA_FILE, value: /run/famulus/s3-ca/ca.crt }
{{- end }}
{{- else }}
- { name: FAMULUS_BACKUP__FOLDER, value: /backups }
{{- end }}
{{- end }}
{{- if $identity }}
- { name: FAMULUS_BACKUP__IDENTITY_FILE, value: /run/famulus/identity/identity }
{{- end }}
{{- end }}

{{- define "famulus.storeMounts" -}}
{{- $root := index . 0 -}}
{{- $identity := index . 1 -}}
{{- $backup := $root.Values.backup -}}
{{- $s3 := $backup.s3 -}}
{{- if $s3.bucket }}
- { name: s3, mountPath: /run/famulus/s3, readOnly: true }
{{- if $s3.ca.existingSecret }}
- { name: s3-ca, mountPath: /run/famulus/s3-ca, readOnly: true }
{{- end }}
{{- else }}
- { name: backups, mountPath: /backups }
{{- end }}
{{- if $identity }}
- { name: identity, mountPath: /run/famulus/identity, readOnly: true }
{{- end }}
{{- end }}

{{- define "famulus.storeVolumes" -}}
{{- $root := index . 0 -}}
{{- $identity := index . 1 -}}
{{- $backup := $root.Values.backup -}}
{{- $s3 := $backup.s3 -}}
{{- if $s3.bucket }}
- name: s3
  secret:
    secretName: {{ $s3.existingSecret }}
    defaultMode: 0440
    items: [{ key: secret-access-key, path: secret-access-key }]
{{- if $s3.ca.existingSecret }}
- name: s3-ca
  secret:
    secretName: {{ $s3.ca.existingSecret }}
    defaultMode: 0440
    items: [{ key: {{ $s3.ca.key }}, path: ca.crt }]
{{- end }}
{{- else }}
- name: backups
  persistentVolumeClaim: { claimName: {{ include "famulus.backupClaim" $root }} }
{{- end }}
{{- if $identity }}
- name: identity
  secret:
    secretName: {{ $backup.identity.existingSecret }}
    defaultMode: 0440
    items: [{ key: {{ $backup.identity.key }}, path: identity }]
{{- end }}
{{- end }}
