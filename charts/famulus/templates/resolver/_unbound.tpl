{{- /*
Public names only: the cluster's domain is refused, and an answer with an address that plugins may not reach
is dropped, so that no public name can stand for a private host. A private host that builds may reach is
known by the name that the values give it.
*/}}
{{- define "famulus.unbound" -}}
{{- $resolver := .Values.resolver -}}
server:
  interface: 0.0.0.0@5353
  # For probes, which no policy lets a plugin reach. Each port takes so many connections of its own, so that
  # who holds all those of plugins lets no probe fail.
  interface: 0.0.0.0@5354
  do-ip6: no
  access-control: 0.0.0.0/0 allow
  username: ""
  chroot: ""
  directory: "/tmp"
  pidfile: ""
  use-syslog: no
  logfile: ""
  log-queries: no
  verbosity: 1
  num-threads: 1
  # One plugin that asks without end is no reason for others to wait.
  ip-ratelimit: {{ $resolver.queriesPerSecond }}
  ip-ratelimit-factor: 0
  # All plugins share them, and each may hold 64 KiB: as many as the memory is enough for, and a silent one for
  # a second. Where half of them are taken, a further one is waited for 200 ms alone.
  incoming-num-tcp: 400
  tcp-idle-timeout: 1000
  msg-cache-size: 8m
  rrset-cache-size: 16m
  hide-identity: yes
  hide-version: yes
  qname-minimisation: yes
  harden-glue: yes
  harden-dnssec-stripped: yes
  module-config: {{ ternary "\"validator iterator\"" "\"iterator\"" $resolver.dnssec }}
  {{- if $resolver.dnssec }}
  trust-anchor-file: "/usr/share/dns/root.key"
  {{- end }}
  local-zone: {{ printf "%s." (trimSuffix "." $resolver.clusterDomain) | quote }} always_refuse
  {{- range include "famulus.deniedRanges" . | fromJsonArray }}
  private-address: {{ . }}
  {{- end }}
  {{- range .Values.network.buildHosts }}
  {{- if and (hasSuffix "/32" .cidr) (not (regexMatch "^[0-9.]+$" .host)) }}
  local-data: {{ printf "%s. IN A %s" (trimSuffix "." .host) (trimSuffix "/32" .cidr) | quote }}
  {{- end }}
  {{- end }}
  # Answers with IPv6 addresses would help nobody: sandboxes have IPv4 alone.
  private-address: ::/0
remote-control:
  control-enable: no
{{- with $resolver.forwardTo }}
forward-zone:
  name: "."
  {{- range . }}
  forward-addr: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
