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
settings:
  log-format: json
  log-requests: errors
  cache: /data/cache
  s3-unsigned-payload: true
  s3-secret-key-file: /etc/sluice/secrets/s3.key
  trusted-proxies: [10.0.0.0/8, "192.0.2.1/32"]
  max-requests: 1000000
  unsettled-limit: 123456789012
  staging-size: 1073741824
memoryLimit: "419430400"
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
	for _, test := range []struct {
		values      string
		objects     int
		environment map[string]string
	}{
		{single, 5, map[string]string{"GOMEMLIMIT": "400MiB", "SLUICE_MAX_REQUESTS": ""}},
		{many, 6, map[string]string{
			"GOMEMLIMIT": "419430400", "SLUICE_LOG_FORMAT": "json", "SLUICE_S3_UNSIGNED_PAYLOAD": "true",
			"SLUICE_TRUSTED_PROXIES": "10.0.0.0/8,192.0.2.1/32", "SLUICE_MAX_REQUESTS": "1000000",
			"SLUICE_UNSETTLED_LIMIT": "123456789012", "SLUICE_STAGING_SIZE": "1073741824",
		}},
		{single + "\nsettings: {max-requests: 999999, trusted-proxies: []}", 5, map[string]string{"SLUICE_MAX_REQUESTS": "999999", "SLUICE_TRUSTED_PROXIES": ""}},
	} {
		objects, err := rendered(t, test.values)
		if err != nil || len(objects) != test.objects {
			t.Fatalf("%d objects, want %d, error %v", len(objects), test.objects, err)
		}
		i := slices.IndexFunc(objects, func(o runtime.Object) bool { _, ok := o.(*appsv1.StatefulSet); return ok })
		set := objects[i].(*appsv1.StatefulSet)
		environment := checkPod(t, set)
		for name, want := range test.environment {
			if environment[name] != want {
				t.Errorf("%s is %q, want %q", name, environment[name], want)
			}
		}
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

// checkPod checks the rights of a pod, and that serve accepts its settings, which it returns.
func checkPod(t *testing.T, set *appsv1.StatefulSet) map[string]string {
	t.Helper()
	pod, c := set.Spec.Template.Spec, set.Spec.Template.Spec.Containers[0]
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != user || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod's rights are %+v, %+v", pod.SecurityContext, s)
	}
	// serve accepts a file with a key from root and for its own group.
	if *pod.SecurityContext.RunAsGroup != *pod.SecurityContext.FSGroup || slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && *v.Secret.DefaultMode != 0o440 }) {
		t.Errorf("the files of secrets are %+v, for %+v", pod.Volumes, pod.SecurityContext)
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
		return environment
	}
	check := exec.Command(*sluice, "config", "check")
	for name, value := range environment {
		check.Env = append(check.Env, name+"="+value)
	}
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sluice config check: %v: %s", err, out)
	}
	return environment
}

// TestChartRefuses renders the chart with values that cannot work, that open the service, or that
// show a secret.
func TestChartRefuses(t *testing.T) {
	const store = single + "\nstore: {meta: database, bytes: "
	refused := map[string]string{
		"replicas: 1":                     "/image/repository",
		single + "\nreplicas: 2":          "more than one replica requires",
		single + "\nstore: {meta: name}":  "set together",
		single + "\nreplica: 2":           "replica",
		single + "\nreads: everybody":     "/reads",
		single + "\nbasePath: /":          "/basePath",
		single + "\nexternalURL: a.b.com": "/externalURL",
		single + "\nmemoryLimit: 1":       "/memoryLimit",

		single + "\nstore: {meta: 'postgres://u:canary@h/d', bytes: 's3://b'}":  "store.meta is the name of a Secret",
		single + "\nstore: {meta: 'host=h password=canary', bytes: 's3://b'}":   "store.meta is the name of a Secret",
		store + `"s3://b/p?secret=canary"}`:                                     "store.bytes has a secret",
		store + `"s3://b?endpoint=https://h&Secret-Key=canary"}`:                "store.bytes has a secret",
		store + `"s3://canary:canary@b/p"}`:                                     "store.bytes has a secret",
		single + "\nsettings: {heal-from: 's3://b?secret=canary'}":              "settings.heal-from has a secret",
		single + "\nsettings: {chain-url: ['https://a', 'https://u:canary@b']}": "settings.chain-url has a secret",
		single + "\nsettings: {unsettled-limit: 9007199254740993}":              "settings.unsettled-limit: put quotation marks",
		single + "\nsettings: {trusted-proxies: {a: b}}":                        "/settings/trusted-proxies",
		single + "\nsettings: {trusted-proxies: [[a]]}":                         "/settings/trusted-proxies/0",
		single + "\nsettings: {PROFILE: local}":                                 "PROFILE",
	}
	for name, want := range map[string]string{
		"profile": "the chart sets it", "open-to-network": "hosted", "data": "the chart sets it", "addr": "the chart sets it",
		"s3-addr": "the chart sets it", "url": "the chart sets it", "admin-addr": "metrics.enabled", "base-path": "basePath",
		"external-url": "externalURL", "reads": "reads at the top", "receiver": "receiver at the top", "tls-cert": "tlsSecret",
		"tls-key": "tlsSecret", "bytes": "store.bytes", "meta": "store.meta", "key": "no secrets",
	} {
		refused[single+"\nsettings: {"+name+": canary}"] = "settings." + name + " is not accepted: "
		refused[single+"\nsettings: {"+name+": canary} # the remedy"] = want
	}
	for values, want := range refused {
		if _, err := rendered(t, values); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: error %v, want %q", values, err, want)
		}
	}
}
