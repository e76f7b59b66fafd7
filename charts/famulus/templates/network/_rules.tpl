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

{{- /*
What is not public, as JSON: the ranges of the values, and each public address that a node or the API server has.
Those are looked up where a cluster answers; `helm template` has none. Private ones are in the ranges already.
*/}}
{{- define "famulus.deniedRanges" -}}
{{- $addresses := list }}
{{- if .Values.network.findClusterRanges }}
{{- range (lookup "v1" "Node" "" "").items }}
{{- range dig "status" "addresses" list . }}{{ $addresses = append $addresses .address }}{{ end }}
{{- end }}
{{- range dig "endpoints" list (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes") }}
{{- $addresses = concat $addresses .addresses }}
{{- end }}
{{- end }}
{{- $found := list }}
{{- range $addresses | sortAlpha }}
{{- $isPrivate := regexMatch "^(10|127|169\\.254|172\\.(1[6-9]|2[0-9]|3[01])|192\\.168)\\." . }}
{{- if and (regexMatch "^[0-9]+(\\.[0-9]+){3}$" .) (not $isPrivate) }}{{ $found = append $found (printf "%s/32" .) }}{{ end }}
{{- end }}
{{- concat .Values.network.deniedRanges .Values.network.clusterRanges $found | uniq | toJson }}
{{- end }}

{{- define "famulus.toInternet" -}}
- ipBlock:
    cidr: 0.0.0.0/0
    {{- with include "famulus.deniedRanges" . | fromJsonArray }}
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
