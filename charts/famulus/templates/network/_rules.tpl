{{- /* Rules that several policies have. */}}

{{- /* Names of the cluster. The peer is left out: an address block does not match what serves them everywhere. */}}
{{- define "famulus.toDns" -}}
- ports:
    {{- range .Values.network.dnsPorts }}
    - { protocol: UDP, port: {{ . }} }
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
{{- end }}

{{- /* The API server: an address block matches neither its node nor its Service on every network. */}}
{{- define "famulus.toApiServer" -}}
- ports:
    {{- range .Values.network.apiServerPorts }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
{{- end }}

{{- define "famulus.toInternet" -}}
- ipBlock:
    cidr: 0.0.0.0/0
    {{- with concat .Values.network.deniedRanges .Values.network.clusterRanges | uniq }}
    except: {{ toYaml . | nindent 6 }}
    {{- end }}
{{- end }}

{{- /* To the port of each address that is given, wherever it leads. */}}
{{- define "famulus.toUrls" -}}
{{- range compact . }}
{{- $url := urlParse . }}
{{- $default := ternary "443" "80" (eq $url.scheme "https") }}
- ports: [{ protocol: TCP, port: {{ regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default $default }} }]
{{- end }}
{{- end }}

{{- define "famulus.policy" -}}
{{- $root := index . 0 -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "famulus.name" $root }}-{{ index . 2 }}
  namespace: {{ index . 1 }}
  labels: {{ include "famulus.labels" (list $root "network") | nindent 4 }}
{{- end }}
