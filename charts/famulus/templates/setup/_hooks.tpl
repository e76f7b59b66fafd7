{{- /*
Annotations of an object of a hook: its events and its place among them. What supports a Job stands before
it and is gone when the hook has succeeded.
*/}}
{{- define "famulus.hook" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.hooks.enabled }}
annotations:
  helm.sh/hook: {{ index . 1 }}
  helm.sh/hook-weight: {{ index . 2 | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
{{- end }}
