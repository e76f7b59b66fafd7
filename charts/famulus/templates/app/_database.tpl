{{- /* The database's URL in the environment of a container. */}}
{{- define "famulus.databaseUrl" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "famulus.databaseSecret" . }}
      key: {{ ternary .Values.database.key "url" (not (empty .Values.database.existingSecret)) }}
{{- end }}
