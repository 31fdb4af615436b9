// Command bodies writes request bodies as Go clients send them, each as protobuf (.pb) and as JSON (.json): the
// fixtures of the tests of the API server. With -seed it writes bodies with random content instead, one of each kind.
// Arguments: the folder to write into.
package main

import (
	"flag"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	rbac "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

var moment = time.Date(2026, 2, 3, 4, 5, 6, 789012000, time.UTC)

func to[T any](value T) *T { return &value }

func named(name string) meta.ObjectMeta { return meta.ObjectMeta{Name: name, Namespace: "ns"} }

func template(policy core.RestartPolicy) core.PodTemplateSpec {
	return core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       core.PodSpec{RestartPolicy: policy, Containers: []core.Container{{Name: "main", Image: "example/main"}}},
	}
}

func pod() *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			GenerateName: "p-", Namespace: "ns", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"empty": ""},
			OwnerReferences: []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "o", UID: "u", Controller: to(false)}},
		},
		Spec: core.PodSpec{
			TerminationGracePeriodSeconds: to(int64(0)),
			AutomountServiceAccountToken:  to(false),
			SecurityContext:               &core.PodSecurityContext{RunAsUser: to(int64(0))},
			NodeSelector:                  map[string]string{"disk": "ssd"},
			Tolerations:                   []core.Toleration{{Key: "k", Operator: core.TolerationOpExists, TolerationSeconds: to(int64(0))}},
			Volumes: []core.Volume{
				{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
				{Name: "config", VolumeSource: core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{
					LocalObjectReference: core.LocalObjectReference{Name: "c"}, DefaultMode: to(int32(0o644))}}},
			},
			Containers: []core.Container{{
				Name: "main", Image: "example/main", Command: []string{"run"}, Args: []string{"", "-v"},
				Ports: []core.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env: []core.EnvVar{
					{Name: "EMPTY"},
					{Name: "POD", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "metadata.name"}}},
					{Name: "KEY", ValueFrom: &core.EnvVarSource{ConfigMapKeyRef: &core.ConfigMapKeySelector{
						LocalObjectReference: core.LocalObjectReference{Name: "c"}, Key: "k", Optional: to(true)}}},
				},
				Resources: core.ResourceRequirements{Requests: core.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}},
				ReadinessProbe: &core.Probe{
					ProbeHandler:  core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}},
					PeriodSeconds: 3,
				},
				LivenessProbe: &core.Probe{ProbeHandler: core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
			}},
			EphemeralContainers: []core.EphemeralContainer{{
				EphemeralContainerCommon: core.EphemeralContainerCommon{Name: "debug", Image: "example/debug"}, TargetContainerName: "main",
			}},
		},
		Status: core.PodStatus{ContainerStatuses: []core.ContainerStatus{{
			Name: "main", Started: to(false), State: core.ContainerState{Terminated: &core.ContainerStateTerminated{FinishedAt: meta.NewTime(moment)}},
		}}},
	}
}

func bodies() map[string]runtime.Object {
	selector := &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	rules := []rbac.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	subjects := []rbac.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "ns"}}
	quarter, one := intstr.FromString("25%"), intstr.FromInt32(0)
	return map[string]runtime.Object{
		"pod": pod(),
		"namespace": &core.Namespace{
			ObjectMeta: meta.ObjectMeta{Name: "ns", CreationTimestamp: meta.NewTime(moment)}, Spec: core.NamespaceSpec{Finalizers: []core.FinalizerName{"kubernetes"}}},
		"event": &core.Event{
			ObjectMeta: named("e.1"), InvolvedObject: core.ObjectReference{Kind: "Pod", Name: "p"}, Reason: "Seen", Message: "ünïcode",
			FirstTimestamp: meta.NewTime(moment), LastTimestamp: meta.NewTime(moment), Count: 2, Type: "Normal"},
		"lease": &coordination.Lease{
			ObjectMeta: meta.ObjectMeta{Name: "l", Namespace: "ns", ResourceVersion: "7"},
			Spec: coordination.LeaseSpec{
				HolderIdentity: to("me"), LeaseDurationSeconds: to(int32(15)), LeaseTransitions: to(int32(0)),
				AcquireTime: to(meta.NewMicroTime(moment)), RenewTime: to(meta.NewMicroTime(moment))}},
		"endpoints": &core.Endpoints{ObjectMeta: named("s"), Subsets: []core.EndpointSubset{{
			Addresses: []core.EndpointAddress{{IP: "10.0.0.1", TargetRef: &core.ObjectReference{Kind: "Pod", Name: "p"}}}, Ports: []core.EndpointPort{{Port: 80}}}}},
		"endpointslice": &discovery.EndpointSlice{ObjectMeta: named("s-1"), AddressType: discovery.AddressTypeIPv4,
			Endpoints: []discovery.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discovery.EndpointConditions{Ready: to(false)}}},
			Ports:     []discovery.EndpointPort{{Name: to(""), Port: to(int32(80))}}},
		"job": &batch.Job{ObjectMeta: named("j"), Spec: batch.JobSpec{
			BackoffLimit: to(int32(0)), TTLSecondsAfterFinished: to(int32(0)), Suspend: to(false), Template: template(core.RestartPolicyNever)}},
		"cronjob": &batch.CronJob{ObjectMeta: named("c"), Spec: batch.CronJobSpec{
			Schedule: "*/5 * * * *", SuccessfulJobsHistoryLimit: to(int32(0)),
			JobTemplate: batch.JobTemplateSpec{Spec: batch.JobSpec{Template: template(core.RestartPolicyOnFailure)}}}},
		"deployment": &apps.Deployment{ObjectMeta: named("d"), Spec: apps.DeploymentSpec{
			Replicas: to(int32(0)), Selector: selector, Template: template(""),
			Strategy: apps.DeploymentStrategy{RollingUpdate: &apps.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &one}}}},
		"replicaset": &apps.ReplicaSet{ObjectMeta: named("r"), Spec: apps.ReplicaSetSpec{Selector: selector, Template: template("")}},
		"scale":      &autoscaling.Scale{ObjectMeta: named("d"), Spec: autoscaling.ScaleSpec{Replicas: 3}},
		"service": &core.Service{ObjectMeta: named("s"), Spec: core.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []core.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}, {Name: "raw", Port: 81}}}},
		"serviceaccount": &core.ServiceAccount{ObjectMeta: named("sa"), AutomountServiceAccountToken: to(false)},
		"configmap":      &core.ConfigMap{ObjectMeta: named("c"), Data: map[string]string{"a": "b", "e": ""}, BinaryData: map[string][]byte{"raw": {0, 255}}},
		"secret":         &core.Secret{ObjectMeta: named("s"), Data: map[string][]byte{"raw": {0, 255}}, StringData: map[string]string{"a": "b"}},
		"role":           &rbac.Role{ObjectMeta: named("r"), Rules: rules},
		"rolebinding":    &rbac.RoleBinding{ObjectMeta: named("r"), Subjects: subjects, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "r"}},
		"clusterrole": &rbac.ClusterRole{ObjectMeta: meta.ObjectMeta{Name: "r"}, Rules: rules,
			AggregationRule: &rbac.AggregationRule{ClusterRoleSelectors: []meta.LabelSelector{*selector}}},
		"clusterrolebinding": &rbac.ClusterRoleBinding{ObjectMeta: meta.ObjectMeta{Name: "r"}, Subjects: subjects, RoleRef: rbac.RoleRef{Kind: "ClusterRole", Name: "r"}},
		"subjectaccessreview": &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
			User: "u", Groups: []string{"g"}, Extra: map[string]authorization.ExtraValue{"scopes": {"a", "b"}},
			ResourceAttributes: &authorization.ResourceAttributes{Verb: "get", Resource: "pods"}}},
		"tokenrequest": &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
			Audiences: []string{"a"}, ExpirationSeconds: to(int64(600)), BoundObjectRef: &authentication.BoundObjectReference{Kind: "Pod", Name: "p", UID: "u"}}},
		"deleteoptions": &meta.DeleteOptions{
			GracePeriodSeconds: to(int64(0)), PropagationPolicy: to(meta.DeletePropagationForeground), Preconditions: &meta.Preconditions{UID: to(types.UID("u"))}},
		"customresourcedefinition": definition(),
	}
}

func definition() *apiextensions.CustomResourceDefinition {
	props := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"any":  {XPreserveUnknownFields: to(true), Ref: nil},
		"size": {Type: "integer", Default: &apiextensions.JSON{Raw: []byte("0")}, Minimum: to(0.0), Enum: []apiextensions.JSON{{Raw: []byte("0")}, {Raw: []byte("1")}}},
		"list": {Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{XIntOrString: true}}},
		"map":  {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: "string"}}},
		"open": {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true}},
	}}
	return &apiextensions.CustomResourceDefinition{ObjectMeta: meta.ObjectMeta{Name: "widgets.tests.example"}, Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "tests.example", Scope: "Namespaced", Names: apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema:       &apiextensions.CustomResourceValidation{OpenAPIV3Schema: props},
			Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}}}}}}
}

// version is the group and version under which a body is sent.
func version(body runtime.Object) schema.GroupVersion {
	kinds, _, err := scheme.Scheme.ObjectKinds(body)
	if err != nil {
		log.Fatal(err)
	}
	if _, options := body.(*meta.DeleteOptions); options {
		return schema.GroupVersion{Version: "v1"}
	}
	return kinds[0].GroupVersion()
}

func write(folder, name string, body runtime.Object) {
	for _, media := range []struct{ name, ending string }{{runtime.ContentTypeProtobuf, ".pb"}, {runtime.ContentTypeJSON, ".json"}} {
		info, found := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media.name)
		if !found {
			log.Fatalf("no serializer for %s", media.name)
		}
		serializer := info.Serializer
		if info.PrettySerializer != nil {
			serializer = info.PrettySerializer
		}
		written, err := runtime.Encode(scheme.Codecs.EncoderForVersion(serializer, version(body)), body)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+media.ending), written, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// filled is a body of the same kind with random content.
func filled(body runtime.Object, seed int64) runtime.Object {
	filler := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 2).MaxDepth(12).Funcs(
		func(value *resource.Quantity, c randfill.Continue) {
			*value = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(value *meta.Time, c randfill.Continue) {
			*value = meta.NewTime(moment.Add(time.Duration(c.Int31()) * time.Second))
		},
		func(value *meta.MicroTime, c randfill.Continue) {
			*value = meta.NewMicroTime(moment.Add(time.Duration(c.Int31()) * time.Microsecond))
		},
		func(value *intstr.IntOrString, c randfill.Continue) {
			*value = []intstr.IntOrString{intstr.FromInt32(c.Int31()), intstr.FromString("x")}[rand.Intn(2)]
		},
		func(value *meta.FieldsV1, _ randfill.Continue) { value.Raw = []byte(`{"f:a":{}}`) },
		func(value *apiextensions.JSON, _ randfill.Continue) { value.Raw = []byte(`{"a":[1,null]}`) },
		func(value *apiextensions.JSONSchemaPropsOrBool, _ randfill.Continue) { value.Allows = true },
		func(value *apiextensions.JSONSchemaPropsOrArray, _ randfill.Continue) {
			value.Schema = &apiextensions.JSONSchemaProps{}
		},
		func(value *apiextensions.JSONSchemaPropsOrStringArray, _ randfill.Continue) {
			value.Property = []string{"a"}
		},
		func(value *meta.TypeMeta, _ randfill.Continue) {},
	)
	made := body.DeepCopyObject()
	filler.Fill(made)
	return made
}

func main() {
	seed := flag.Int64("seed", 0, "random content, from this seed")
	flag.Parse()
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	for name, body := range bodies() {
		if *seed != 0 {
			body = filled(body, *seed)
		}
		write(flag.Arg(0), name, body)
	}
}
