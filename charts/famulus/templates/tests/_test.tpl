{{- /* What every test is: a Pod that may reach the app's port and nothing else. */}}

{{- define "famulus.testMeta" -}}
{{- $root := index . 0 -}}
name: {{ include "famulus.name" $root }}-test-{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels: {{ include "famulus.labels" (list $root "test") | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: {{ index . 2 | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "famulus.testPod" -}}
# Tries again while something still starts.
restartPolicy: OnFailure
activeDeadlineSeconds: 240
{{ include "famulus.pod" (list . dict 65532 "links") }}
{{- end }}

{{- define "famulus.testEnvironment" -}}
{{- $port := include "famulus.serviceHost" (list .Release.Name) | replace "_HOST)" "_PORT)" -}}
- { name: FAMULUS_URL, value: "http://{{ include "famulus.serviceHost" (list .Release.Name) }}:{{ $port }}" }
- name: FAMULUS_TOKEN
  valueFrom: { secretKeyRef: { name: {{ include "famulus.tokenSecret" . }}, key: token } }
{{- end }}
