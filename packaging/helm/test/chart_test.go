// Package helmtest renders the chart as Helm does, and reads every document with Kubernetes' own types: strictly, so that
// a field that Kubernetes does not know is an error. What the chart gives to counterd is checked by counterd itself.
package helmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../counterd"

// release is what the chart makes of some values.
type release struct {
	sets     map[string]*appsv1.StatefulSet
	services map[string]*corev1.Service
	budgets  map[string]*policyv1.PodDisruptionBudget
	config   *corev1.ConfigMap
	secret   *corev1.Secret
	others   map[string]string // by kind
	notes    string
}

// render makes the release "r" in the namespace "n".
func render(values string) (*release, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "r", Namespace: "n", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	r := &release{sets: map[string]*appsv1.StatefulSet{}, services: map[string]*corev1.Service{}, budgets: map[string]*policyv1.PodDisruptionBudget{}, others: map[string]string{}}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = text
			continue
		}
		for document := range strings.SplitSeq("\n"+text, "\n---") {
			if err := r.add(document); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, document)
			}
		}
	}
	return r, nil
}

// add reads a document strictly.
func (r *release) add(document string) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil || kind.Kind == "" {
		if strings.TrimSpace(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(document, "")) == "" {
			return nil
		}
		return fmt.Errorf("no kind: %v", err)
	}
	switch kind.Kind + " " + kind.APIVersion {
	case "StatefulSet apps/v1":
		return read(document, r.sets)
	case "Service v1":
		return read(document, r.services)
	case "PodDisruptionBudget policy/v1":
		return read(document, r.budgets)
	case "ConfigMap v1":
		r.config = &corev1.ConfigMap{}
		return yaml.UnmarshalStrict([]byte(document), r.config)
	case "Secret v1":
		r.secret = &corev1.Secret{}
		return yaml.UnmarshalStrict([]byte(document), r.secret)
	case "ServiceMonitor monitoring.coreos.com/v1", "PrometheusRule monitoring.coreos.com/v1":
		r.others[kind.Kind] = document
		return nil
	}
	return fmt.Errorf("got the kind %s of %s, want one that this test knows", kind.Kind, kind.APIVersion)
}

// read puts a document into a map by its name.
func read[T any, P interface {
	*T
	metav1.Object
}](document string, into map[string]P) error {
	var v P = new(T)
	if err := yaml.UnmarshalStrict([]byte(document), v); err != nil {
		return err
	}
	if into[v.GetName()] != nil {
		return fmt.Errorf("two are called %s", v.GetName())
	}
	into[v.GetName()] = v
	return nil
}

// modes are values of each mode, plain and with everything that can be turned on.
var modes = map[string]string{
	"single":       "",
	"single-full":  "{settings: {maxmemory: 1gb, appendfsync: always}, schema: \"ADD COUNTER weibo\\nADD COLUMN weibo repost hint=8\", tls: {existingSecret: certs}, metrics: {serviceMonitor: {enabled: true, labels: {a: b}}, prometheusRule: {enabled: true}}, service: {type: LoadBalancer, annotations: {a: b}}, podLabels: {c: d}, podAnnotations: {e: f}, nodeSelector: {disk: ssd}, tolerations: [{key: k, operator: Exists}], priorityClassName: high, persistence: {storageClass: fast}, image: {pullSecrets: [{name: s}]}, affinity: {nodeAffinity: {}}}",
	"single-open":  "{auth: {enabled: false}}",
	"replication":  "{mode: replication}",
	"sentinel":     "{mode: replication, nodes: 5, replication: {minReplicasToWrite: 1, sentinel: {enabled: true}}, auth: {existingSecret: mine}}",
	"cluster":      "{mode: cluster, nodes: 6, cluster: {etcd: ['http://e0:2379', 'http://e1:2379']}}",
	"cluster-full": "{mode: cluster, nodes: 7, tls: {existingSecret: certs}, cluster: {etcd: ['https://e0:2379'], etcdUser: u, etcdPasswordSecret: p, etcdTLSSecret: t}}",
}

// eachMode runs a test with what the chart makes in each mode.
func eachMode(t *testing.T, run func(t *testing.T, mode string, r *release)) {
	for mode, values := range modes {
		t.Run(mode, func(t *testing.T) {
			r, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			run(t, mode, r)
		})
	}
}

// TestPods: what every pod of a database needs, and the restricted security context, in all modes.
func TestPods(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string, r *release) {
		if r.sets["r-counterd"] == nil || (mode == "sentinel") != (r.sets["r-counterd-sentinel"] != nil) {
			t.Fatalf("got the StatefulSets %v", r.sets)
		}
		for name, set := range r.sets {
			pod := set.Spec.Template.Spec
			if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
				t.Errorf("%s: got %s, want nodes that do not wait for each other", name, set.Spec.PodManagementPolicy)
			}
			if s := r.services[set.Spec.ServiceName]; s == nil || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses {
				t.Errorf("%s: the Service %s is not headless, or has no names of nodes that are not ready", name, set.Spec.ServiceName)
			}
			if len(pod.TopologySpreadConstraints) != 2 {
				t.Errorf("%s: got %d constraints of spread, want zones and hosts", name, len(pod.TopologySpreadConstraints))
			}
			for _, c := range pod.TopologySpreadConstraints {
				selects(t, name, c.LabelSelector.MatchLabels, set.Spec.Template.Labels)
			}
			selects(t, name, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
			if b := r.budgets[name]; b == nil || b.Spec.MaxUnavailable.IntValue() != 1 {
				t.Errorf("%s: no budget of one disruption at a time", name)
			} else {
				selects(t, name, b.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
			}
			if len(set.Spec.VolumeClaimTemplates) != 1 || set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().IsZero() {
				t.Errorf("%s: no claim of a volume for data", name)
			}
			if s := pod.SecurityContext; s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: the pod is not restricted: %+v", name, pod.SecurityContext)
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				s := c.SecurityContext
				if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s: the container %s is not restricted: %+v", name, c.Name, s)
				}
				if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s: the container %s has no bound of memory", name, c.Name)
				}
				mounted(t, name, set, c)
			}
		}
		for name, s := range r.services {
			if !slices.ContainsFunc([]*appsv1.StatefulSet{r.sets["r-counterd"], r.sets["r-counterd-sentinel"]}, func(set *appsv1.StatefulSet) bool {
				return set != nil && contains(set.Spec.Template.Labels, s.Spec.Selector) && ported(set, s)
			}) {
				t.Errorf("the Service %s selects no pods with its ports", name)
			}
		}
	})
}

func contains(labels, part map[string]string) bool {
	for k, v := range part {
		if labels[k] != v {
			return false
		}
	}
	return len(part) > 0
}

func selects(t *testing.T, name string, selector, labels map[string]string) {
	t.Helper()
	if !contains(labels, selector) {
		t.Errorf("%s: the selector %v does not take the pods' labels %v", name, selector, labels)
	}
}

// ported tells whether each port of a Service is one of the pods.
func ported(set *appsv1.StatefulSet, s *corev1.Service) bool {
	var has []string
	for _, p := range set.Spec.Template.Spec.Containers[0].Ports {
		has = append(has, p.Name)
	}
	return !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return !slices.Contains(has, p.TargetPort.StrVal) })
}

// mounted checks that each mount has its volume, and that no file of a secret is open to others.
func mounted(t *testing.T, name string, set *appsv1.StatefulSet, c corev1.Container) {
	t.Helper()
	for _, m := range c.VolumeMounts {
		if m.Name == set.Spec.VolumeClaimTemplates[0].Name {
			continue
		}
		i := slices.IndexFunc(set.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Errorf("%s: %s mounts %s, which is no volume", name, c.Name, m.Name)
		} else if s := set.Spec.Template.Spec.Volumes[i].Secret; s != nil && (s.DefaultMode == nil || *s.DefaultMode != 0o440) {
			t.Errorf("%s: the Secret %s is readable by others", name, s.SecretName)
		}
	}
}

// TestProbes: a loading node is alive, a node is ready when it serves reads, and it is drained before it stops.
func TestProbes(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string, r *release) {
		set := r.sets["r-counterd"]
		c := set.Spec.Template.Spec.Containers[0]
		for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "metrics" {
				t.Errorf("the probe of %s: got %+v", path, probe)
			}
		}
		stop := c.Lifecycle.PreStop
		if set.Spec.Template.Spec.Containers[0].Lifecycle == nil || stop == nil || *set.Spec.Template.Spec.TerminationGracePeriodSeconds < 60 {
			t.Fatal("no time to stop")
		}
		switch replicates := mode == "replication" || mode == "sentinel"; {
		case replicates && (stop.Exec == nil || !slices.Equal(stop.Exec.Command[:2], []string{"/usr/bin/counterctl", "drain"})):
			t.Errorf("a primary is stopped without a planned failover: %+v", stop)
		case !replicates && (stop.Sleep == nil || stop.Sleep.Seconds == 0):
			t.Errorf("a node stops while load balancers send to it: %+v", stop)
		}
		for _, flag := range []string{"--sentinel=", "--sentinel-name=posts"} {
			if mode == "sentinel" && !slices.ContainsFunc(stop.Exec.Command, func(a string) bool { return strings.HasPrefix(a, flag) }) {
				t.Errorf("drain has no %s: %q", flag, stop.Exec.Command)
			}
		}
	})
}

// TestSettings: the settings and flags of each mode are ones that counterd takes, and so are those of counterctl drain.
func TestSettings(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/counterd", "./cmd/counterctl")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eachMode(t, func(t *testing.T, mode string, r *release) {
		dir := t.TempDir()
		secret := filepath.Join(dir, "password")
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		conf := r.config.Data["counterd.conf"]
		if script := r.config.Data["counterd.schema"]; script != "" {
			conf = strings.ReplaceAll(conf, "/etc/counterd/conf/counterd.schema", put(t, dir, "schema", script))
		}
		conf = regexp.MustCompile(`/etc/counterd/\S+/password\b`).ReplaceAllString(conf, secret)
		if left := regexp.MustCompile(`(?m)^(tls|cluster-etcd-(cacert|cert|key))\S* /etc.*$`).FindAllString(conf, -1); len(left) > 0 { // certificates: the names of the settings
			for _, line := range left {
				conf = strings.ReplaceAll(conf, line+"\n", "")
			}
			conf = regexp.MustCompile(`(?m)^tls-.*\n`).ReplaceAllString(conf, "")
			help, err := exec.Command(filepath.Join(bin, "counterd"), "--help").Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range left {
				if name, _, _ := strings.Cut(line, " "); !strings.Contains(string(help), "--"+name+" ") {
					t.Errorf("%s is no setting of counterd", name)
				}
			}
		}
		conf = strings.ReplaceAll(conf, "dir /data", "dir "+filepath.Join(dir, "data"))
		pod := r.sets["r-counterd"].Spec.Template.Spec
		expand := strings.NewReplacer("$(POD_NAME)", "r-counterd-1", "$(ZONE)", "")
		args := []string{"--check-config"}
		for _, a := range pod.Containers[0].Args {
			if path, is := strings.CutPrefix(a, "--config="); is {
				want := "/etc/counterd/conf/counterd.conf"
				if strings.HasPrefix(mode, "replication") || mode == "sentinel" {
					want = "/run/counterd/counterd.conf"
				}
				if path != want {
					t.Errorf("got --config %s, want %s", path, want)
				}
				a = "--config=" + put(t, dir, "conf", conf)
			}
			args = append(args, expand.Replace(a))
		}
		if out, err := exec.Command(filepath.Join(bin, "counterd"), args...).CombinedOutput(); err != nil {
			t.Errorf("counterd %q: %v\n%s\n%s", args, err, out, conf)
		}
		if stop := pod.Containers[0].Lifecycle.PreStop; stop.Exec != nil {
			args := append(slices.Clone(stop.Exec.Command[1:]), "--help")
			if out, err := exec.Command(filepath.Join(bin, "counterctl"), args...).CombinedOutput(); err != nil {
				t.Errorf("counterctl %q: %v\n%s", args, err, out)
			}
		}
	})
}

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPasswords: a password is in a Secret alone, and stays what it is given as.
func TestPasswords(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string, r *release) {
		if made := mode != "single-open" && mode != "sentinel"; made != (r.secret != nil) {
			t.Fatalf("got the Secret %v, want one: %v", r.secret, made)
		} else if made && len(r.secret.Data["password"]) != 32 {
			t.Errorf("got a password of %d letters, want 32", len(r.secret.Data["password"]))
		}
	})
	r, err := render("{mode: replication, auth: {password: \"p w\\\"\"}}")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.secret.Data["password"]); got != `p w"` {
		t.Errorf("got the password %q", got)
	}
	if whole, err := yaml.Marshal(r.config); err != nil || strings.Contains(string(whole), "p w") {
		t.Errorf("the ConfigMap shows the password: %v\n%s", err, whole)
	}
}

// TestMonitoring: the ServiceMonitor and the project's own alerts are behind values.
func TestMonitoring(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string, r *release) {
		if mode != "single-full" {
			if len(r.others) != 0 {
				t.Errorf("got %v, want none unless it is asked for", r.others)
			}
			return
		}
		var rule struct {
			Spec struct {
				Groups []struct {
					Rules []struct{ Alert, Expr string }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(r.others["PrometheusRule"]), &rule); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("../../../cmd/counterd/internal/observe/metrics/alerts.yml")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, g := range rule.Spec.Groups {
			n += len(g.Rules)
		}
		if want := strings.Count(string(text), "- alert:"); n != want || want == 0 {
			t.Errorf("got %d alerts, want %d", n, want)
		}
		if m := r.others["ServiceMonitor"]; !strings.Contains(m, "port: metrics") || !strings.Contains(m, "replacement: counterd") {
			t.Errorf("the ServiceMonitor does not scrape the port of metrics as the job counterd:\n%s", m)
		}
	})
}

// TestRefused: values that cannot work are refused before anything is made.
func TestRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{mode: ring}":    "mode",
		"{mode: cluster}": "cluster.etcd",
		"{mode: cluster, cluster: {etcd: ['e0:2379']}}": "etcd",
		"{nodes: 0}":                    "nodes",
		"{nodez: 3}":                    "nodez",
		"{settings: {requirepass: x}}":  "settings.requirepass",
		"{settings: {cluster-name: x}}": "settings.cluster-name",
		"{settings: {Max_Memory: x}}":   "Max_Memory",
		"{replication: {sentinel: {downAfterMilliseconds: 1000}}}":           "downAfterMilliseconds",
		"{topologySpread: [{topologyKey: a, whenUnsatisfiable: Sometimes}]}": "whenUnsatisfiable",
		"{metrics: {serviceMonitor: {enabled: 'yes'}}}":                      "enabled",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error of %s", values, err, want)
		}
	}
}

// TestNotes: what is printed at the end names the next step.
func TestNotes(t *testing.T) {
	for mode, want := range map[string]string{
		"single":      "counterctl ping 127.0.0.1:6379",
		"replication": "The first primary is\nr-counterd-0.r-counterd-headless.n.svc:6379",
		"sentinel":    "r-counterd-sentinel.n.svc:26379, name posts",
		"cluster":     "counterctl cluster create --yes \\\n    --shards 2 --replicas 2 \\\n    r-counterd-0.r-counterd-headless.n.svc:6379",
	} {
		r, err := render(modes[mode])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.notes, want) {
			t.Errorf("%s: the notes do not say %q:\n%s", mode, want, r.notes)
		}
	}
}
