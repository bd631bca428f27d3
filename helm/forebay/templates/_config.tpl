{{- /* The worker's config file. What a pod alone knows comes from its environment. */ -}}

{{- define "forebay.config" -}}
[worker]
admin_listen = "0.0.0.0:9600"
drain_seconds = {{ .Values.worker.drainSeconds }}
log = "json"

{{ range $index, $disk := .Values.worker.disks -}}
[[disk]]
path = {{ printf "/cache/%d" $index | quote }}
{{- if $disk.capacity }}
capacity = {{ $disk.capacity | quote }}
{{- else if $disk.emptyDir }}
capacity = {{ include "forebay.capacityOf" $disk.emptyDir.sizeLimit | quote }}
{{- end }}

{{ end -}}
[cache]
read_ahead_blocks = {{ .Values.worker.cache.readAheadBlocks }}
fill_budget = {{ .Values.worker.cache.fillBudget | quote }}
versions_in_memory = {{ int64 .Values.worker.cache.versionsInMemory }}

[auth]
mode = {{ .Values.clients.auth | quote }}

{{ range .Values.buckets -}}
[[bucket]]
name = {{ .name | quote }}
origin = {{ default $.Values.origin.endpoint .endpoint | quote }}
{{- with default $.Values.origin.region .region }}
region = {{ . | quote }}
{{- end }}
credentials = {{ ternary "anonymous" "default" (eq $.Values.origin.auth "anonymous") | quote }}
{{- include "forebay.freshness" . }}
{{ range .prefixes }}
[[bucket.prefix]]
prefix = {{ .prefix | quote }}
{{- include "forebay.freshness" . }}
{{ end }}
{{ end -}}
[cluster]
secret_file = "/etc/forebay/secret/cluster.secret"
voters = [{{ range $index, $voter := splitList "," (include "forebay.voters" .) }}{{ if $index }}, {{ end }}{{ $voter | quote }}{{ end }}]
{{ end -}}

{{- define "forebay.freshness" -}}
{{- with .freshness }}
freshness = {{ . | quote }}
{{- end }}
{{- if hasKey . "boundSeconds" }}
bound_seconds = {{ int64 .boundSeconds }}
{{- end }}
{{- end -}}
