{{- /* The worker's pod: the same in a DaemonSet and in a StatefulSet. */ -}}

{{- define "forebay.workerPod" -}}
metadata:
  labels:
    # Without the chart's version: a new one alone is no reason to restart a cache.
    {{- include "forebay.selector" (dict "top" . "component" "worker") | nindent 4 }}
    {{- with .Values.worker.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A change of the configuration is a rollout.
    checksum/config: {{ include "forebay.config" . | sha256sum }}
    {{- with .Values.worker.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "forebay.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.worker.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # preStop, then draining, then 10 s for closing the store, and as much to spare.
  terminationGracePeriodSeconds: {{ add .Values.worker.preStopSeconds .Values.worker.drainSeconds 20 | max 60 }}
  securityContext:
    {{- include "forebay.podSecurity" . | nindent 4 }}
  {{- with .Values.worker.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.worker.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "forebay.workerPlacement" . | nindent 2 }}
  {{- if .Values.worker.chownDisks }}
  initContainers:
    {{- include "forebay.chownDisks" . | nindent 4 }}
  {{- end }}
  containers:
    - name: worker
      image: {{ include "forebay.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/forebay/config/forebay.toml]
      env:
        {{- include "forebay.workerEnv" . | nindent 8 }}
      ports:
        - {name: s3, containerPort: 9000{{ with .Values.worker.hostPort }}, hostPort: {{ . }}{{ end }}}
        - {name: data, containerPort: 9100}
        - {name: admin, containerPort: 9600}
      {{- include "forebay.probes" . | nindent 6 }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ .Values.worker.preStopSeconds }}}
      resources:
        {{- toYaml .Values.worker.resources | nindent 8 }}
      securityContext:
        {{- include "forebay.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/forebay/config, readOnly: true}
        - {name: secret, mountPath: /etc/forebay/secret, readOnly: true}
        {{- if eq .Values.origin.auth "workloadIdentity" }}
        - {name: identity, mountPath: /var/run/secrets/forebay, readOnly: true}
        {{- end }}
        {{- include "forebay.diskMounts" . | nindent 8 }}
  volumes:
    - name: config
      configMap: {name: {{ include "forebay.fullname" . }}}
    - name: secret
      # Readable by the pod's group, and by nobody else.
      secret: {secretName: {{ include "forebay.clusterSecret" . }}, defaultMode: 0440}
    {{- if eq .Values.origin.auth "workloadIdentity" }}
    - name: identity
      projected:
        sources:
          - serviceAccountToken: {path: token, audience: {{ .Values.origin.audience | quote }}, expirationSeconds: 3600}
    {{- end }}
    {{- include "forebay.diskVolumes" . | nindent 4 }}
{{- end -}}

{{- define "forebay.workerPlacement" -}}
{{- $selector := include "forebay.selector" (dict "top" . "component" "worker") -}}
{{- with .Values.worker.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- if eq .Values.worker.kind "StatefulSet" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
{{- end }}
{{- end }}
{{- if eq .Values.worker.kind "StatefulSet" }}
topologySpreadConstraints:
  {{- with .Values.worker.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "forebay.workerEnv" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- {name: FOREBAY_DATA_ADVERTISE, value: "$(POD_IP):9100"}
- {name: FOREBAY_S3_ADVERTISE, value: "$(POD_IP):9000"}
# Kubernetes copies the node's zone to the pod's labels from 1.35 on; before, it is empty.
- name: FOREBAY_ZONE
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}
{{- if eq .Values.clients.auth "keys" }}
- name: FOREBAY_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ include "forebay.clientSecret" . }}, key: AWS_ACCESS_KEY_ID}}
- name: FOREBAY_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ include "forebay.clientSecret" . }}, key: AWS_SECRET_ACCESS_KEY}}
{{- end }}
{{- with .Values.origin.region }}
- {name: AWS_REGION, value: {{ . | quote }}}
{{- end }}
{{- if eq .Values.origin.auth "existingSecret" }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ .Values.origin.existingSecret }}, key: AWS_ACCESS_KEY_ID}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ .Values.origin.existingSecret }}, key: AWS_SECRET_ACCESS_KEY}}
- name: AWS_SESSION_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .Values.origin.existingSecret }}, key: AWS_SESSION_TOKEN, optional: true}}
{{- else if eq .Values.origin.auth "workloadIdentity" }}
- {name: AWS_ROLE_ARN, value: {{ .Values.origin.roleArn | quote }}}
- {name: AWS_WEB_IDENTITY_TOKEN_FILE, value: /var/run/secrets/forebay/token}
{{- end }}
{{- range $name, $value := .Values.worker.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- define "forebay.diskMounts" -}}
{{- range $index, $_ := .Values.worker.disks }}
- {name: disk-{{ $index }}, mountPath: /cache/{{ $index }}}
{{- end }}
{{- end -}}

{{- /* Disks that are claims of a StatefulSet are not among a pod's own volumes. */ -}}
{{- define "forebay.diskVolumes" -}}
{{- range $index, $disk := .Values.worker.disks }}
{{- if $disk.hostPath }}
- name: disk-{{ $index }}
  hostPath: {path: {{ $disk.hostPath | quote }}, type: Directory}
{{- else if $disk.emptyDir }}
- name: disk-{{ $index }}
  emptyDir: {sizeLimit: {{ $disk.emptyDir.sizeLimit }}}
{{- else if $disk.ephemeral }}
- name: disk-{{ $index }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        {{- include "forebay.claim" $disk.ephemeral | nindent 8 }}
{{- else if ne $.Values.worker.kind "StatefulSet" }}
{{- fail (printf "worker.disks[%d]: a persistentVolumeClaim needs worker.kind StatefulSet; use ephemeral or hostPath in a DaemonSet" $index) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "forebay.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end -}}

{{- define "forebay.chownDisks" -}}
- name: chown-disks
  image: {{ .Values.test.image | quote }}
  command:
    - chown
    - "65532:65532"
    {{- range $index, $_ := .Values.worker.disks }}
    - /cache/{{ $index }}
    {{- end }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 32Mi}
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN]}
  volumeMounts:
    {{- include "forebay.diskMounts" . | nindent 4 }}
{{- end -}}
