{{/* The beginning of all names. */}}
{{- define "weft.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "weft.labels" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weft.meta" -}}
{{ include "weft.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "weft.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The name by which others in the cluster reach a service: (list ROOT SERVICE). */}}
{{- define "weft.host" -}}
{{ index . 1 }}.{{ (index . 0).Release.Namespace }}.svc
{{- end -}}

{{/* The service of controller (list ROOT ORDINAL). */}}
{{- define "weft.controller" -}}
{{ include "weft.name" (index . 0) }}-control-{{ index . 1 }}
{{- end -}}

{{/* Where nodes find the controllers, with commas. */}}
{{- define "weft.controllers" -}}
{{- $all := list -}}
{{- range $nth := until (int .Values.controllers.replicas) -}}
{{- $service := include "weft.controller" (list $ $nth) -}}
{{- $all = append $all (printf "%s:9471" (include "weft.host" (list $ $service))) -}}
{{- end -}}
{{- join "," $all -}}
{{- end -}}

{{/* Where clients find the controllers, with commas. */}}
{{- define "weft.apis" -}}
{{- $scheme := ternary "https" "http" (ne .Values.certificates.controllersSecret "") -}}
{{- $all := list -}}
{{- range $nth := until (int .Values.controllers.replicas) -}}
{{- $service := include "weft.controller" (list $ $nth) -}}
{{- $all = append $all (printf "%s://%s:9472" $scheme (include "weft.host" (list $ $service))) -}}
{{- end -}}
{{- join "," $all -}}
{{- end -}}

{{/* Stops with one line where values do not fit each other. */}}
{{- define "weft.check" -}}
{{- $control := .Values.controllers -}}
{{- $replicas := int $control.replicas -}}
{{- if and (gt $replicas 1) (not $control.etcd.endpoints) -}}
{{- fail "controllers.replicas: several controllers need etcd: set controllers.etcd.endpoints" -}}
{{- end -}}
{{- if and (gt $replicas 0) (not .Values.tokensSecret) -}}
{{- fail "tokensSecret: controllers and nodes need a secret with node-token and api-token" -}}
{{- end -}}
{{- if and (gt $replicas 0) (not .Values.plaintext) (or (not .Values.certificates.controllersSecret) (not .Values.certificates.nodesSecret)) -}}
{{- fail "certificates: nodes and controllers need nodesSecret and controllersSecret, or `plaintext: true` for a network that is trusted" -}}
{{- end -}}
{{- if and $control.etcd.endpoints (not $control.etcd.plaintext) (not $control.etcd.certificatesSecret) -}}
{{- fail "controllers.etcd: set certificatesSecret, or `plaintext: true` for a network that is trusted" -}}
{{- end -}}
{{- $numbers := dict -}}
{{- range $name, $group := .Values.nodeGroups -}}
{{- if hasPrefix "control" $name -}}
{{- fail (printf "nodeGroups.%s: names that begin with `control` are those of controllers" $name) -}}
{{- end -}}
{{- if gt $replicas 0 -}}
{{- $first := int (required (printf "nodeGroups.%s.firstNumber: where there are controllers, each node has a number" $name) $group.firstNumber) -}}
{{- range $nth := until (int $group.replicas) -}}
{{- $number := toString (add $first $nth) -}}
{{- if hasKey $numbers $number -}}
{{- fail (printf "nodeGroups.%s.firstNumber: a node of %s has the number %s already" $name (get $numbers $number) $number) -}}
{{- end -}}
{{- $_ := set $numbers $number $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
