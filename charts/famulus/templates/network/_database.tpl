{{- /* A database of one's own may be anywhere; ours is beside the app. */}}
{{- define "famulus.toDatabase" -}}
{{- if .Values.database.existingSecret }}
- ports: [{ protocol: TCP, port: {{ .Values.database.port }} }]
{{- else }}
- ports: [{ protocol: TCP, port: 5432 }]
  to:
    - podSelector:
        matchLabels: {{ include "famulus.selector" (list . "postgres") | nindent 10 }}
{{- end }}
{{- end }}
