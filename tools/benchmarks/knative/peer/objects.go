package main

import "fmt"

const (
	namespace   = "bench"
	broker      = "default"
	channelPort = 8080 // fixed in the upstream binary
)

type object = map[string]any

func meta(ns, name, uid string) object {
	m := object{"name": name, "uid": uid, "resourceVersion": "1", "generation": 1, "creationTimestamp": "2024-01-01T00:00:00Z"}
	if ns != "" {
		m["namespace"] = ns
	}
	return m
}

func conditions(types ...string) []object {
	result := []object{}
	for _, t := range append(types, "Ready") {
		result = append(result, object{"type": t, "status": "True"})
	}
	return result
}

// reconciled gives the objects that upstream's controllers would have left behind for these routes.
func reconciled(routes []route, ingressPort, filterPort int) map[string][]object {
	ingressURL := fmt.Sprintf("http://127.0.0.1:%d/%s/%s", ingressPort, namespace, broker)
	channelURL := fmt.Sprintf("http://127.0.0.1:%d", channelPort)
	var triggers, subscribers []object
	for i, r := range routes {
		uid := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		spec := object{"broker": broker, "filter": object{"attributes": r.Attributes}, "subscriber": object{"uri": r.Subscriber}}
		if len(r.Filters) > 0 {
			spec["filters"] = r.Filters
		}
		triggers = append(triggers, object{
			"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": meta(namespace, r.Name, uid), "spec": spec,
			"status": object{
				"observedGeneration": 1, "subscriberUri": r.Subscriber,
				"conditions": conditions("BrokerReady", "SubscriptionReady", "DependencyReady", "SubscriberResolved", "DeadLetterSinkResolved", "OIDCIdentityCreated"),
			},
		})
		subscribers = append(subscribers, object{
			"uid": uid, "name": r.Name, "generation": 1, "replyUri": ingressURL,
			"subscriberUri": fmt.Sprintf("http://127.0.0.1:%d/triggers/%s/%s/%s", filterPort, namespace, r.Name, uid),
			"delivery":      object{"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"},
		})
	}
	channel := object{
		"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel", "metadata": meta(namespace, broker+"-kne-trigger", "11111111-0000-0000-0000-000000000000"),
		"spec": object{"subscribers": subscribers},
		"status": object{
			"observedGeneration": 1, "address": object{"url": channelURL}, "addresses": []object{{"url": channelURL}},
			"conditions": conditions("Addressable", "ChannelServiceReady", "DispatcherReady", "EndpointsReady", "ServiceReady", "DeadLetterSinkResolved", "EventPoliciesReady"),
		},
	}
	channel["metadata"].(object)["finalizers"] = []string{"imc-dispatcher"}
	theBroker := object{
		"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": meta(namespace, broker, "22222222-0000-0000-0000-000000000000"),
		"spec": object{},
		"status": object{
			"observedGeneration": 1, "address": object{"url": ingressURL},
			"annotations": object{"knative.dev/channelAddress": channelURL, "knative.dev/channelName": broker + "-kne-trigger"},
			"conditions":  conditions("IngressReady", "FilterReady", "TriggerChannelReady", "Addressable", "DeadLetterSinkResolved", "EventPoliciesReady"),
		},
	}
	theBroker["metadata"].(object)["annotations"] = object{"eventing.knative.dev/broker.class": "MTChannelBasedBroker"}
	return map[string][]object{
		"brokers": {theBroker}, "triggers": triggers, "inmemorychannels": {channel}, "configmaps": configMaps(),
	}
}

func configMaps() []object {
	data := map[string]object{
		"config-logging":         {"zap-logger-config": `{"level":"error","encoding":"json","outputPaths":["stderr"],"errorOutputPaths":["stderr"],"encoderConfig":{}}`},
		"config-observability":   {"metrics-protocol": "none", "tracing-protocol": "none"},
		"config-leader-election": {"lease-duration": "60s", "renew-deadline": "40s", "retry-period": "10s"},
		"config-features":        {},
	}
	var result []object
	for name, values := range data {
		result = append(result, object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("knative-eventing", name, "33333333-0000-0000-0000-"+fmt.Sprintf("%012x", len(name))), "data": values,
		})
	}
	return result
}
