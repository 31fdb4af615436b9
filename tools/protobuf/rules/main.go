// Command rules prints, as JSON, what the protobuf messages of Kubernetes do not say about their JSON form:
// fields under another name, fields whose parts stand in their place, and fields whose zero is a value.
// It reads them off the Go types, which both forms are made from.
package main

import (
	"encoding/json"
	"log"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// message is what is special about one message; most have nothing special.
type message struct {
	Inline  []string          `json:"inline,omitempty"`
	Renamed map[string]string `json:"renamed,omitempty"`
	// Kept are the fields that are written even if they are zero: pointers, and what is not `omitempty`.
	Kept []string `json:"kept,omitempty"`
	// List says that the message stands for the list in its only field.
	List bool `json:"list,omitempty"`
}

type book map[string]*message

func main() {
	found := book{}
	for kind, model := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == "v1" {
			found.add(model)
		}
	}
	found.add(reflect.TypeOf(apiextensions.CustomResourceDefinition{}))
	found.add(reflect.TypeOf(meta.DeleteOptions{}))
	for name, rules := range found {
		if reflect.DeepEqual(*rules, message{}) {
			delete(found, name)
		}
	}
	output := json.NewEncoder(os.Stdout)
	output.SetIndent("", " ")
	if err := output.Encode(found); err != nil {
		log.Fatal(err)
	}
}

// name is the full name of the message of a Go type.
func name(model reflect.Type) string {
	return strings.NewReplacer("/", ".", "-", "_").Replace(model.PkgPath()) + "." + model.Name()
}

func (b book) add(model reflect.Type) {
	for model.Kind() == reflect.Pointer || (model.Kind() == reflect.Slice && model.Name() == "") || model.Kind() == reflect.Map {
		model = model.Elem()
	}
	if !strings.HasPrefix(model.PkgPath(), "k8s.io/") || b[name(model)] != nil {
		return
	}
	rules := &message{}
	switch model.Kind() {
	case reflect.Slice:
		rules.List = true
		b[name(model)] = rules
	case reflect.Struct:
		b[name(model)] = rules
		for i := range model.NumField() {
			b.addField(rules, model.Field(i))
		}
	}
}

func (b book) addField(rules *message, field reflect.StructField) {
	tag := field.Tag.Get("protobuf")
	if tag == "" {
		return
	}
	wire := strings.ToLower(field.Name[:1]) + field.Name[1:]
	for _, part := range strings.Split(tag, ",") {
		if strings.HasPrefix(part, "name=") {
			wire = strings.TrimPrefix(part, "name=")
		}
	}
	shown, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if shown == "" && field.Anonymous {
		rules.Inline = append(rules.Inline, wire)
	} else if shown != wire {
		if rules.Renamed == nil {
			rules.Renamed = map[string]string{}
		}
		rules.Renamed[wire] = shown
	}
	omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	if field.Type.Kind() == reflect.Pointer || !omitted {
		rules.Kept = append(rules.Kept, wire)
	}
	b.add(field.Type)
}
