package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

type child struct {
	name    string
	command *exec.Cmd
}

func start(binaries, folder, name, kubeconfig string, environment ...string) *child {
	log, err := os.Create(filepath.Join(folder, name+".log"))
	check(err)
	command := exec.Command(filepath.Join(binaries, name), "-kubeconfig", kubeconfig)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Env = append(os.Environ(), append(environment,
		"KUBECONFIG="+kubeconfig, "SYSTEM_NAMESPACE=knative-eventing", "NAMESPACE=knative-eventing",
		"POD_NAME="+name, "CONTAINER_NAME="+name, "CONFIG_LOGGING_NAME=config-logging",
		"CONFIG_OBSERVABILITY_NAME=config-observability", "CONFIG_LEADERELECTION_NAME=config-leader-election",
		"METRICS_DOMAIN=knative.dev/eventing", "K_INTERNAL_POD_NAME="+name,
	)...)
	if name == "channel_dispatcher" {
		command.Env = append(command.Env, "NAMESPACE=") // the dispatcher would look only into its own namespace
	}
	check(command.Start())
	return &child{name, command}
}

func endAll(children []*child) {
	for _, c := range children {
		_ = c.command.Process.Signal(syscall.SIGTERM)
	}
	for _, c := range children {
		done := make(chan struct{})
		go func() { _ = c.command.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(3 * time.Second):
			_ = c.command.Process.Kill()
		}
	}
}
