{{- /* What all our Pods have in common. They fit Pod Security `restricted`. */}}

{{- /*
Root, values of the part (or an empty map), uid, and what the Pod gets of the cluster: `api` is a token
for the API server, `links` the addresses of the Services beside it, for Pods that do without DNS.
*/}}
{{- define "famulus.pod" -}}
{{- $root := index . 0 -}}
{{- $scheduling := (index . 1).scheduling | default dict -}}
{{- $uid := int (index . 2) -}}
automountServiceAccountToken: {{ contains "api" (index . 3) }}
enableServiceLinks: {{ contains "links" (index . 3) }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $uid }}
  runAsGroup: {{ $uid }}
  fsGroup: {{ $uid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with include "famulus.priorityClass" $root }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $scheduling.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $scheduling.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $scheduling.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $scheduling.topologySpreadConstraints }}
topologySpreadConstraints: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Of one of our images: root, and the part. */}}
{{- define "famulus.container" -}}
{{ include "famulus.containerOf" (list (index . 0) (include "famulus.image" .)) }}
{{- end }}

{{- /* Of any image: root, and its reference. */}}
{{- define "famulus.containerOf" -}}
image: {{ index . 1 }}
imagePullPolicy: {{ (index . 0).Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "famulus.setupResources" -}}
requests: { cpu: 10m, memory: 32Mi }
limits: { memory: 128Mi }
{{- end }}
