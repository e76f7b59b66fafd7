{{- /* What the schema cannot say. Each message names the value, the cause and the remedy. */}}

{{- define "famulus.validate" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,34}[a-z0-9])?$" .Release.Name) }}
{{- fail (printf "the release's name %q is part of names of Services: choose one of at most 36 lowercase letters, digits and hyphens that begins with a letter" .Release.Name) }}
{{- end }}
{{- if hasPrefix "famulus-operator" .Release.Name }}
{{- fail (printf "the release's name %q makes Services whose variables look like settings of the operator: choose one that does not begin with famulus-operator" .Release.Name) }}
{{- end }}
{{- if eq (include "famulus.sandbox" .) .Release.Namespace }}
{{- fail (printf "sandbox.namespace is %q, the release's own: plugins need a namespace of their own; leave it empty or name another" .Release.Namespace) }}
{{- end }}
{{- if lt (int .Values.plugins.uids.last) (int .Values.plugins.uids.first) }}
{{- fail "plugins.uids.last is less than plugins.uids.first: write them the other way round" }}
{{- end }}
{{- if and (gt (int .Values.plugins.uids.last) 65535) (ne .Values.plugins.userNamespaces "Off") }}
{{- fail "plugins.uids.last is more than 65535, and a user namespace has no more ids: choose a smaller range, or set plugins.userNamespaces to Off" }}
{{- end }}
{{- if and .Values.priorityClass.create .Values.priorityClass.name }}
{{- fail "priorityClass.name names a class that exists, and priorityClass.create makes one: set one of them" }}
{{- end }}
{{- if and .Values.app.ingress.enabled (not .Values.app.ingress.host) }}
{{- fail "app.ingress.enabled is true, but app.ingress.host is empty: name the host under which Famulus is reached" }}
{{- end }}
{{- if and .Values.app.model.baseUrl (not .Values.app.model.name) }}
{{- fail "app.model.baseUrl is set, but app.model.name is empty: name the model to ask for" }}
{{- end }}
{{- include "famulus.validateStorage" . }}
{{- end }}

{{- /*
Postgres keeps everything, so a claim that would stay Pending for ever is refused at the first install. Only
a cluster that answers can be asked; `helm template` has none.
*/}}
{{- define "famulus.validateStorage" -}}
{{- $wanted := and (not .Values.database.existingSecret) .Values.postgres.persistence.enabled (not .Values.postgres.persistence.storageClass) }}
{{- if and $wanted .Release.IsInstall (lookup "v1" "Namespace" "" "kube-system") }}
{{- $found := false }}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items }}
{{- if eq "true" (dig "metadata" "annotations" "storageclass.kubernetes.io/is-default-class" "" .) }}{{ $found = true }}{{ end }}
{{- end }}
{{- if not $found }}
{{- fail "NoStorageClass: the cluster has no default StorageClass, so Postgres would have no volume. Set postgres.persistence.storageClass to one of `kubectl get storageclass`; or database.existingSecret to the Secret of a Postgres of your own; or postgres.persistence.enabled=false, and everything is lost with its Pod" }}
{{- end }}
{{- end }}
{{- end }}
