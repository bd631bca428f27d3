{{- /* Names, labels and pieces that several templates share. */ -}}

{{- define "forebay.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* What never changes for a component: selectors. Takes (dict "top" $ "component" "worker"). */ -}}
{{- define "forebay.selector" -}}
app.kubernetes.io/name: {{ default .top.Chart.Name .top.Values.nameOverride }}
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "forebay.labels" -}}
{{ include "forebay.selector" . }}
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: forebay
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .top.Chart.Name .top.Chart.Version }}
{{- end -}}

{{- define "forebay.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ printf "%s@%s" $image.repository $image.digest }}
{{- else -}}
{{ printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end -}}
{{- end -}}

{{- define "forebay.clusterSecret" -}}
{{ default (printf "%s-cluster" (include "forebay.fullname" .)) .Values.cluster.existingSecret }}
{{- end -}}

{{- define "forebay.clientSecret" -}}
{{ default (printf "%s-client-keys" (include "forebay.fullname" .)) .Values.clients.existingSecret }}
{{- end -}}

{{- define "forebay.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "forebay.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name: name the account to use, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- /* Whether the cluster-wide service prefers the caller's own node. */ -}}
{{- define "forebay.prefersOwnNode" -}}
{{- if semverCompare ">=1.34.0-0" .Capabilities.KubeVersion.Version -}}true{{- end -}}
{{- end -}}

{{- /* The service that jobs are pointed at. */ -}}
{{- define "forebay.clientService" -}}
{{- $full := include "forebay.fullname" . -}}
{{- $any := or (include "forebay.prefersOwnNode" .) (eq .Values.worker.kind "StatefulSet") -}}
{{- $choice := .Values.clients.service -}}
{{- if or (eq $choice "any") (and (eq $choice "auto") $any) -}}
{{ $full }}-any
{{- else -}}
{{ $full }}
{{- end -}}
{{- end -}}

{{- define "forebay.endpoint" -}}
http://{{ include "forebay.clientService" . }}.{{ .Release.Namespace }}.svc:9000
{{- end -}}

{{- /* The number and address of each voter, by commas: what FOREBAY_INITIAL_VOTERS wants. */ -}}
{{- define "forebay.initialVoters" -}}
{{- $voters := list -}}
{{- range $id := untilStep 1 (int (add1 .Values.meta.replicas)) 1 -}}
{{- $voters = append $voters (printf "%d=%s" $id (include "forebay.voter" (dict "top" $ "id" $id))) -}}
{{- end -}}
{{ join "," $voters }}
{{- end -}}

{{- define "forebay.voters" -}}
{{- $voters := list -}}
{{- range $id := untilStep 1 (int (add1 .Values.meta.replicas)) 1 -}}
{{- $voters = append $voters (include "forebay.voter" (dict "top" $ "id" $id)) -}}
{{- end -}}
{{ join "," $voters }}
{{- end -}}

{{- define "forebay.voter" -}}
{{- $meta := printf "%s-meta" (include "forebay.fullname" .top) -}}
{{ printf "%s-%d.%s.%s.svc:9701" $meta (int .id) $meta .top.Release.Namespace }}
{{- end -}}

{{- define "forebay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "forebay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "forebay.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 5
  # A store of many terabytes is opened before the port answers.
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{- /* 90 % of a size such as 20Gi, as the worker's configuration writes sizes. */ -}}
{{- define "forebay.capacityOf" -}}
{{- $units := dict "Mi" 1 "Gi" 1024 "Ti" 1048576 -}}
{{- $unit := regexFind "[MGT]i$" . -}}
{{- $mebibytes := mul (trimSuffix $unit . | int64) (get $units $unit) -}}
{{ printf "%dMiB" (div (mul $mebibytes 90) 100) }}
{{- end -}}
