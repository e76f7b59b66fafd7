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
{{- range $provider := list "model" "transcription" "speech" }}
{{- with index $.Values.app $provider }}
{{- if and .baseUrl (not .name) }}
{{- fail (printf "app.%s.baseUrl is set, but app.%s.name is empty: name the model to ask for" $provider $provider) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (include "famulus.signalImage" .) (include "famulus.signalElsewhere" .) }}
{{- fail "signal.image and app.signal.url are both set: leave app.signal.url empty to use the daemon of the release, or signal.image to use the other one" }}
{{- end }}
{{- include "famulus.validateBackup" . }}
{{- include "famulus.validateRestore" . }}
{{- include "famulus.validateStorage" . }}
{{- end }}

{{- define "famulus.validateRestore" -}}
{{- if include "famulus.restores" . }}
{{- if not (or .Values.backup.s3.bucket .Values.backup.persistence.existingClaim) }}
{{- fail "restore.from is set, but nothing says where the backup is: set backup.s3.bucket, or backup.persistence.existingClaim to the claim that it is on" }}
{{- end }}
{{- if not .Values.hooks.enabled }}
{{- fail "restore.from is set, but hooks.enabled is false: what is restored comes before what a release makes, which takes Helm's hooks" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A recipient that is none is not repeated: it may be a private key. */}}
{{- define "famulus.validateBackup" -}}
{{- with .Values.backup }}
{{- if or .enabled (include "famulus.restores" $) }}
{{- if and .recipient (not (regexMatch "^age1[a-z0-9]+$" .recipient)) }}
{{- fail "backup.recipient is no public key of age: write what age-keygen calls the public key, age1…, or leave it empty, and backups are not encrypted" }}
{{- end }}
{{- if and .s3.bucket (not .s3.existingSecret) }}
{{- fail "backup.s3.bucket is set, but backup.s3.existingSecret is empty: name a Secret with the keys access-key-id and secret-access-key" }}
{{- end }}
{{- if and (not .s3.bucket) (or .s3.prefix .s3.endpoint .s3.existingSecret .s3.ca.existingSecret) }}
{{- fail "backup.s3 describes a store, but backup.s3.bucket is empty: name the bucket, or leave all of backup.s3 out, and backups go to a volume" }}
{{- end }}
{{- if and .s3.bucket .persistence.existingClaim }}
{{- fail "backup.s3.bucket and backup.persistence.existingClaim name two places for backups: set one of them" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
Postgres keeps everything, so a claim that would stay Pending for ever is refused at the first install; that for
backups also where an upgrade would make it. Only a cluster that answers can be asked; `helm template` has none.
*/}}
{{- define "famulus.validateStorage" -}}
{{- if and (lookup "v1" "Namespace" "" "kube-system") (not (include "famulus.hasStorageClass" .)) }}
{{- $postgres := .Values.postgres.persistence }}
{{- if and .Release.IsInstall (not .Values.database.existingSecret) $postgres.enabled (not $postgres.storageClass) }}
{{- fail "NoStorageClass: the cluster has no default StorageClass, so Postgres would have no volume. Set postgres.persistence.storageClass to one of `kubectl get storageclass`; or database.existingSecret to the Secret of a Postgres of your own; or postgres.persistence.enabled=false, and everything is lost with its Pod" }}
{{- end }}
{{- if include "famulus.backups" . }}
{{- $given := or .Values.backup.s3.bucket .Values.backup.persistence.existingClaim (include "famulus.backupStorageClass" .) }}
{{- if not (or $given (lookup "v1" "PersistentVolumeClaim" .Release.Namespace (include "famulus.backupClaim" .))) }}
{{- fail "NoStorageClass: the cluster has no default StorageClass, so backups would have no volume. Set backup.persistence.storageClass to one of `kubectl get storageclass`; or backup.persistence.existingClaim to a claim of your own; or backup.s3.bucket to a bucket; or backup.enabled=false, and none is taken" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether claims that name no class get one. */}}
{{- define "famulus.hasStorageClass" -}}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items }}
{{- if eq "true" (dig "metadata" "annotations" "storageclass.kubernetes.io/is-default-class" "" .) }}true{{ end }}
{{- end }}
{{- end }}
