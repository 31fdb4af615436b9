// Command peer runs the data path of Knative's default Broker (ingress, in-memory channel dispatcher, filter) as
// ordinary processes, without a cluster: it serves them the few Kubernetes objects they read, already reconciled.
//
// The binaries are upstream's own, unmodified. Events are kept in memory only, there is one replica of each, and no
// network between them: what is measured is their best case on one machine.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// route is one Trigger of the benchmark.
type route struct {
	Name       string            `json:"name"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Filters    []map[string]any  `json:"filters,omitempty"`
	Subscriber string            `json:"subscriber"`
}

func main() {
	routesFile := flag.String("routes", "", "JSON file with a list of {name, attributes, filters, subscriber}")
	binaries := flag.String("binaries", ".", "folder of the binaries ingress, filter and channel_dispatcher")
	folder := flag.String("folder", "", "folder for logs and the kubeconfig")
	flag.Parse()

	content, err := os.ReadFile(*routesFile)
	check(err)
	var routes []route
	check(json.Unmarshal(content, &routes))

	ports := freePorts(2)
	world := newWorld(routes, ports[0], ports[1])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { _ = http.Serve(listener, world) }()
	kubeconfig := filepath.Join(*folder, "kubeconfig")
	check(os.WriteFile(kubeconfig, []byte(fmt.Sprintf(kubeconfigText, listener.Addr())), 0o600))

	children := []*child{
		start(*binaries, *folder, "channel_dispatcher", kubeconfig, "MAX_IDLE_CONNS=2000", "MAX_IDLE_CONNS_PER_HOST=200"),
		start(*binaries, *folder, "filter", kubeconfig, fmt.Sprintf("FILTER_PORT=%d", ports[1]), "FILTER_PORT_HTTPS=0"),
		start(*binaries, *folder, "ingress", kubeconfig, fmt.Sprintf("INGRESS_PORT=%d", ports[0]), "INGRESS_PORT_HTTPS=0"),
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	if err := awaitPath(ports[0], 60*time.Second); err != nil {
		endAll(children)
		check(err)
	}
	pids := map[string]int{}
	for _, c := range children {
		pids[c.name] = c.command.Process.Pid
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"url": fmt.Sprintf("http://127.0.0.1:%d/%s/%s", ports[0], namespace, broker), "pids": pids,
	}))
	<-stop
	endAll(children)
}

// awaitPath waits until an event that no Trigger wants is accepted: every process on the way then answers.
func awaitPath(port int, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for last := "no answer"; ; time.Sleep(200 * time.Millisecond) {
		request, _ := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/%s/%s", port, namespace, broker), nil)
		for name, value := range map[string]string{"specversion": "1.0", "id": "probe", "source": "/peer", "type": "peer.probe"} {
			request.Header.Set("Ce-"+name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode/100 == 2 {
				return nil
			}
			last = response.Status
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the path did not answer within %s: %s", limit, last)
		}
	}
}

func freePorts(count int) []int {
	ports := make([]int, count)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

const kubeconfigText = `apiVersion: v1
kind: Config
current-context: peer
clusters: [{name: peer, cluster: {server: "http://%s"}}]
users: [{name: peer, user: {}}]
contexts: [{name: peer, context: {cluster: peer, user: peer}}]
`
