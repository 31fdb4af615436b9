{{- define "penstock.scheme" }}{{ (ne (toString .Values.tls.mode) "off") | ternary "https" "http" }}{{ end }}
{{- define "penstock.trust" }}
{{- $entry := dict "name" .Values.tls.secret "key" .Values.tls.authority }}
{{- empty .Values.tls.authority | ternary (dict) (dict "secret" $entry) | toJson }}
{{- end }}
{{- define "penstock.names" }}{{ concat (`["broker-ingress.knative-eventing.svc", "broker-ingress.knative-eventing.svc.cluster.local", "penstock-ingress.knative-eventing.svc", "penstock-ingress.knative-eventing.svc.cluster.local", "penstock-control.knative-eventing.svc", "penstock-control.knative-eventing.svc.cluster.local", "penstock-webhook.knative-eventing.svc", "penstock-webhook.knative-eventing.svc.cluster.local", "penstock-pipeline.knative-eventing.svc", "penstock-pipeline.knative-eventing.svc.cluster.local", "penstock-console.knative-eventing.svc", "penstock-console.knative-eventing.svc.cluster.local", "penstock-history.knative-eventing.svc", "penstock-history.knative-eventing.svc.cluster.local"]` | fromJsonArray) .Values.tls.names | toJson }}{{ end }}
{{- /* The settings, and those that follow from what was chosen, where they were not given. */}}
{{- define "penstock.settings" }}
{{- $settings := deepCopy .Values.settings }}
{{- $implied := list }}
{{- if and .Values.sparkExecutors }}{{ $implied = append $implied (tpl `{"spark_master": "k8s://https://kubernetes.default.svc", "spark_executors": 2}` . | fromJson) }}{{ end }}
{{- if and .Values.history.enabled }}{{ $implied = append $implied (tpl `{"history": true}` . | fromJson) }}{{ end }}
{{- if and (ne (toString .Values.tls.mode) "off") }}{{ $implied = append $implied (tpl `{"tls": true, "tls_cert_file": "/etc/penstock/certificate/tls.crt", "tls_key_file": "/etc/penstock/certificate/tls.key", "tls_address_base": "https://broker-ingress.knative-eventing.svc.cluster.local"}` . | fromJson) }}{{ end }}
{{- if and (ne (toString .Values.tls.mode) "off") .Values.tls.authority }}{{ $implied = append $implied (tpl `{"tls_ca_file": "/etc/penstock/certificate/{{ .Values.tls.authority }}"}` . | fromJson) }}{{ end }}
{{- if and .Values.console.enabled (ne (toString .Values.tls.mode) "off") }}{{ $implied = append $implied (tpl `{"console_metrics": ["https://penstock-pipeline.knative-eventing.svc:9093/metrics", "https://penstock-ingress.knative-eventing.svc:9091/metrics"]}` . | fromJson) }}{{ end }}
{{- if and .Values.console.enabled }}{{ $implied = append $implied (tpl `{"console_metrics": ["http://penstock-pipeline.knative-eventing.svc:9093/metrics", "http://penstock-ingress.knative-eventing.svc:9091/metrics"], "console_hosts": ["penstock-console.knative-eventing", "penstock-console.knative-eventing.svc", "penstock-console.knative-eventing.svc.cluster.local"]}` . | fromJson) }}{{ end }}
{{- if and true }}{{ $implied = append $implied (tpl `{"history": false}` . | fromJson) }}{{ end }}
{{- range $implied }}
{{- range $name, $value := . }}
{{- if not (hasKey $settings $name) }}{{ $_ := set $settings $name $value }}{{ end }}
{{- end }}
{{- end }}
{{- range $name, $value := $settings }}
{{- $text := kindIs "string" $value | ternary $value (toJson $value) }}
  PENSTOCK_{{ upper $name }}: {{ toJson $text }}
{{- end }}
{{- end }}
