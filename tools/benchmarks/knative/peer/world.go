package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// world answers the Kubernetes requests of the binaries: lists and watches of objects that never change, leases that
// they write for themselves, and everything else as if it had been stored.
type world struct {
	objects map[string][]object
	mutex   sync.Mutex
	written map[string][]byte
}

var kinds = map[string]string{
	"brokers": "Broker", "triggers": "Trigger", "inmemorychannels": "InMemoryChannel", "configmaps": "ConfigMap",
	"subscriptions": "Subscription", "eventpolicies": "EventPolicy", "eventtypes": "EventType", "secrets": "Secret",
	"serviceaccounts": "ServiceAccount", "leases": "Lease", "events": "Event", "namespaces": "Namespace", "endpoints": "Endpoints",
	"requestreplies": "RequestReply", "channels": "Channel", "pods": "Pod", "services": "Service", "deployments": "Deployment",
}

func newWorld(routes []route, ingressPort, filterPort int) *world {
	return &world{objects: reconciled(routes, ingressPort, filterPort), written: map[string][]byte{}}
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/version" {
		_, _ = io.WriteString(out, `{"major":"1","minor":"34","gitVersion":"v1.34.0"}`)
		return
	}
	group, ns, plural, name := split(r.URL.Path)
	switch {
	case r.Method != http.MethodGet:
		w.write(out, r, plural, ns, name)
	case r.URL.Query().Get("sendInitialEvents") == "true":
		status(out, http.StatusUnprocessableEntity, "Invalid", "initial events are not served")
	case r.URL.Query().Get("watch") != "":
		out.WriteHeader(http.StatusOK)
		out.(http.Flusher).Flush()
		<-r.Context().Done()
	case name != "":
		w.get(out, r, plural, ns, name)
	default:
		items := []object{}
		if r.URL.Query().Get("labelSelector") == "" {
			items = append(items, w.in(plural, ns)...)
		}
		_ = json.NewEncoder(out).Encode(object{
			"apiVersion": group, "kind": kinds[plural] + "List", "metadata": object{"resourceVersion": "1"}, "items": items,
		})
	}
}

// split takes /api/v1/namespaces/<ns>/<plural>/<name> and /apis/<group>/<version>/… apart.
func split(path string) (group, ns, plural, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		group, parts = parts[1], parts[2:]
	} else if len(parts) >= 3 {
		group, parts = parts[1]+"/"+parts[2], parts[3:]
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		ns, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		plural = parts[0]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	return
}

func (w *world) in(plural, ns string) []object {
	var result []object
	for _, item := range w.objects[plural] {
		if ns == "" || item["metadata"].(object)["namespace"] == ns {
			result = append(result, item)
		}
	}
	return result
}

func (w *world) get(out http.ResponseWriter, r *http.Request, plural, ns, name string) {
	for _, item := range w.in(plural, ns) {
		if item["metadata"].(object)["name"] == name {
			_ = json.NewEncoder(out).Encode(item)
			return
		}
	}
	w.mutex.Lock()
	stored, found := w.written[r.URL.Path]
	w.mutex.Unlock()
	if !found {
		status(out, http.StatusNotFound, "NotFound", plural+" "+name+" not found")
		return
	}
	_, _ = out.Write(stored)
}

func (w *world) write(out http.ResponseWriter, r *http.Request, plural, ns, name string) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPatch {
		w.get(out, r, plural, ns, name)
		return
	}
	path := r.URL.Path
	if r.Method == http.MethodPost {
		var posted struct {
			Metadata struct{ Name string }
		}
		_ = json.Unmarshal(body, &posted)
		path += "/" + posted.Metadata.Name
		out.WriteHeader(http.StatusCreated)
	}
	w.mutex.Lock()
	w.written[path] = body
	w.mutex.Unlock()
	_, _ = out.Write(body)
}

func status(out http.ResponseWriter, code int, reason, message string) {
	out.WriteHeader(code)
	_ = json.NewEncoder(out).Encode(object{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
	})
}
