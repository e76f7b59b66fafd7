{{- /* Where plugins live, as the assistant's program is told by the environment of a container. */}}
{{- define "famulus.clusterEnvironment" -}}
- { name: FAMULUS_CLUSTER__SANDBOX_NAMESPACE, value: {{ include "famulus.sandbox" . }} }
- { name: FAMULUS_CLUSTER__ROOT_KEY_FILE, value: /run/famulus/root-key/key }
- { name: FAMULUS_CLUSTER__CALLBACK_URL, value: "http://{{ include "famulus.name" . }}-callback:3002" }
{{- end }}
