package main

import (
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// The binary and the chart of a release, which .ci/dist --check names.
var (
	sluice = flag.String("sluice", "", "the binary")
	folder = flag.String("chart", "../helm", "folder or archive of the chart")
)

// single are the least values, for one node, and many set most values, for several nodes.
const single = `image: {repository: registry.example.org/sluice}`

const many = single + `
replicas: 3
store: {meta: database, bytes: "s3://bucket/blobs?endpoint=https://s3.example.org", credentials: bucket}
settings: {log-format: json, log-requests: errors, cache: /data/cache}
externalURL: https://blobs.example.org/sluice
ingress: {host: blobs.example.org, className: nginx, tlsSecret: certificate}
metrics: {enabled: true}
volume: {size: 1Gi, storageClass: fast}
secretFiles: files
tlsSecret: certificate
tolerations: [{key: a, operator: Exists}]
`

// rendered returns the objects that the chart makes of values. Those with a field that Kubernetes
// does not have, or of a wrong type, fail the test.
func rendered(t *testing.T, values string) ([]runtime.Object, error) {
	t.Helper()
	chart, err := loader.Load(*folder)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "blobs", Namespace: "storage"}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") || strings.TrimSpace(files[name]) == "" {
			continue
		}
		documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(files[name])))
		for {
			text := make([]byte, len(files[name]))
			n, err := documents.Read(text)
			if err == io.EOF {
				break
			}
			object, _, derr := decoder.Decode(text[:n], nil, nil)
			if err != nil || derr != nil {
				t.Fatalf("%s: %v, %v\n%s", name, err, derr, text[:n])
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// TestChart renders the chart for one node and for several, and checks that Kubernetes knows all
// fields, that the objects find each other, and that the pods are hosted and have no rights.
func TestChart(t *testing.T) {
	for values, want := range map[string]int{single: 5, many: 6} {
		objects, err := rendered(t, values)
		if err != nil || len(objects) != want {
			t.Fatalf("%d objects, want %d, error %v", len(objects), want, err)
		}
		i := slices.IndexFunc(objects, func(o runtime.Object) bool { _, ok := o.(*appsv1.StatefulSet); return ok })
		set := objects[i].(*appsv1.StatefulSet)
		checkPod(t, set)
		pod := labels.Set(set.Spec.Template.Labels)
		port := func(p intstr.IntOrString) bool {
			return slices.ContainsFunc(set.Spec.Template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == p.StrVal })
		}
		var services []string
		for _, object := range objects {
			switch o := object.(type) {
			case *corev1.Service:
				services = append(services, o.Name)
				if !labels.SelectorFromSet(o.Spec.Selector).Matches(pod) || slices.ContainsFunc(o.Spec.Ports, func(p corev1.ServicePort) bool { return !port(p.TargetPort) }) {
					t.Errorf("the service is %+v", o.Spec)
				}
			case *policyv1.PodDisruptionBudget:
				if !labels.SelectorFromSet(o.Spec.Selector.MatchLabels).Matches(pod) || o.Spec.MaxUnavailable.IntVal != 1 {
					t.Errorf("the budget is %+v", o.Spec)
				}
			case *networkingv1.NetworkPolicy:
				if !labels.SelectorFromSet(o.Spec.PodSelector.MatchLabels).Matches(pod) || slices.ContainsFunc(o.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
					return len(r.From) == 0 || slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool { return !port(*p.Port) })
				}) {
					t.Errorf("the network policy is %+v", o.Spec)
				}
			case *networkingv1.Ingress:
				if name := o.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name; !slices.Contains(services, name) && name != set.Name {
					t.Errorf("the ingress leads to %s", name)
				}
			}
		}
		if !slices.Contains(services, set.Spec.ServiceName) || !labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(pod) {
			t.Errorf("the nodes are %+v", set.Spec)
		}
	}
}

// checkPod checks the rights of a pod, and that serve accepts its settings.
func checkPod(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	pod, c := set.Spec.Template.Spec, set.Spec.Template.Spec.Containers[0]
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != user || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod's rights are %+v, %+v", pod.SecurityContext, s)
	}
	if c.StartupProbe == nil || c.LivenessProbe.HTTPGet.Path != "/sluice/livez" || c.ReadinessProbe.HTTPGet.Path != "/sluice/readyz" {
		t.Errorf("the probes are %v, %v, %v", c.StartupProbe, c.LivenessProbe, c.ReadinessProbe)
	}
	environment := map[string]string{"PATH": os.Getenv("PATH"), "SLUICE_META": "postgres://sluice@database/sluice"}
	if len(c.EnvFrom) == 0 {
		delete(environment, "SLUICE_META")
	}
	for _, e := range c.Env {
		environment[e.Name] = e.Value
	}
	if environment["SLUICE_PROFILE"] != "hosted" || environment["SLUICE_READS"] != "key" || *set.Spec.Replicas > 1 && len(c.EnvFrom) != 2 {
		t.Errorf("the settings are %v, and %v", environment, c.EnvFrom)
	}
	if *sluice == "" {
		return
	}
	check := exec.Command(*sluice, "config", "check")
	for name, value := range environment {
		check.Env = append(check.Env, name+"="+value)
	}
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sluice config check: %v: %s", err, out)
	}
}

// TestChartRefuses renders the chart with values that cannot work.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 1":                     "/image/repository",
		single + "\nreplicas: 2":          "more than one replica requires",
		single + "\nstore: {meta: name}":  "set together",
		single + "\nreplica: 2":           "replica",
		single + "\nreads: everybody":     "/reads",
		single + "\nbasePath: /":          "/basePath",
		single + "\nexternalURL: a.b.com": "/externalURL",
	} {
		if _, err := rendered(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", values, err, want)
		}
	}
}
