package deploy

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// forms are the overlays.
var forms = []string{"app", "standalone", "cluster", "command"}

// TestOverlays renders each overlay, decodes its objects strictly into the types of Kubernetes, and looks for
// what would break a deployment.
func TestOverlays(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(overlays)
	if err != nil || len(entries) != len(forms) {
		t.Errorf("the test knows %v: %v, %v", forms, entries, err)
	}
	for _, form := range forms {
		all, err := decode(render(t, form))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		for _, fault := range faultsOf(all, imageEnv(t)) {
			t.Errorf("%s: %s", form, fault)
		}
		if form != "command" && (len(all.workloads) != 1 || len(all.policies) != 1 || len(all.budgets) != 1) {
			t.Errorf("%s: %+v", form, all)
		}
	}
}

// TestPackIsTheExample: the pack of the overlay app is that of the example. kustomize reads no file outside its directory.
func TestPackIsTheExample(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile(filepath.Join(overlays, "app/shop.pack.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, "examples/quickstart-python/shop.pack.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("examples/quickstart-python/shop.pack.yaml has changed: copy it to deploy/kubernetes/overlays/app")
	}
}

// TestFaultsAreFound changes a rendered overlay in ways that would break a deployment. Each must be found.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	texts, image := map[string]string{}, imageEnv(t)
	for _, form := range forms {
		texts[form] = string(render(t, form))
	}
	for _, one := range []struct{ form, old, new, want string }{
		{"standalone", "readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true", `unknown field "spec.template.spec.containers[0].securityContext.readOnlyRootFileSystem"`},
		{"standalone", "replicas: 1", "replicas: one", "cannot unmarshal string"},
		{"standalone", "  replicas: 1\n", "  replicas: 1\n  replicas: 1\n", "already set in map"},
		{"standalone", "kind: PodDisruptionBudget", "kind: PodDisruptionBudgets", "no kind"},
		{"standalone", "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"},
		{"standalone", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "allowPrivilegeEscalation"},
		{"standalone", "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		{"standalone", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can be written"},
		{"standalone", "targetPort: grpc", "targetPort: grcp", "no container has the port grcp"},
		{"standalone", "    - port: grpc", "    - port: grcp", "has the port grcp"},
		{"standalone", "  - from:\n    - namespaceSelector:\n        matchLabels:\n          pawl-callers: \"true\"\n    ports:\n    - port: grpc\n", "", "no NetworkPolicy admits connections to the port grpc"},
		{"standalone", "            port: 7291", "            port: 7290", `probe asks the port "7290"`},
		{"standalone", "          tcpSocket:\n            port: grpc", "          tcpSocket:\n            port: grcp", `probe asks the port "grcp"`},
		{"standalone", "  PAWL_LISTEN: 0.0.0.0:7291", "  PAWL_LISTEN: 127.0.0.1:7291", "the sidecar listens at 127.0.0.1:7291"},
		{"standalone", "  PAWL_LISTEN: 0.0.0.0:7291", "  PAWL_LISTEN: 0.0.0.0:7299", "the sidecar is reached at the ports"},
		{"standalone", "  PAWL_TOKENS_FILE: /etc/pawl/secret/tokens\n", "", "is not loopback"},
		{"standalone", "  PAWL_TOKENS_FILE:", "  PAWL_TOKEN_FILES:", "PAWL_TOKEN_FILES is no setting"},
		{"standalone", "  PAWL_DATA: /data/store", "  PAWL_DATA: /var/store", "not on a volume that outlives the pod"},
		{"standalone", "- configMapRef:\n            name: pawl-", "- configMapRef:\n            name: pawl-x", "there is no ConfigMap"},
		{"standalone", "name: tmp\n      enableServiceLinks", "name: temp\n      enableServiceLinks", "there is no volume temp"},
		{"standalone", "serviceName: pawl-pods", "serviceName: pawl", "no headless Service"},
		{"standalone", "maxUnavailable: 1", "minAvailable: 1", "blocks the drain"},
		{"standalone", "  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: pawl", "  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: paw", "PodDisruptionBudget pawl selects no pod"},
		{"standalone", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 10", "killed while calls in flight"},
		{"standalone", "- serve\n", "- serve\n        - --lissten=0.0.0.0:1\n", "unknown flag: --lissten"},
		{"standalone", "defaultMode: 288", "defaultMode: 292", "every user can read it"},
		{"app", "        restartPolicy: Always\n", "", "must end before the app starts"},
		{"app", "value: 127.0.0.1:7291", "value: 127.0.0.1:7290", `calls "127.0.0.1:7290"`},
		{"app", "            - health\n          failureThreshold: 180", "            - helth\n          failureThreshold: 180", "helth"},
		{"app", "  shop.pack.yaml: |", "  shop.pack.yml: |", "has no shop.pack.yaml"},
		{"app", "    - port: http", "    - port: https", "has the port https"},
		{"cluster", "$(POD_NAME).pawl-pods", "$(POD_NAMES).pawl-pods", "other nodes reach it at"},
		{"cluster", "    - port: 7292", "    - port: 7293", "has the port 7293"},
		{"cluster", "  PAWL_DATA: \"\"", "  PAWL_DATA: /data/store", "data"},
		{"cluster", "sslrootcert=/etc/pawl/database/ca.pem", "sslrootcert=/etc/pawl/database/root.pem", "has no root.pem"},
		{"command", "- --store=$(PAWL_STORE)", "- --stores=$(PAWL_STORE)", "unknown flag: --stores"},
		{"command", "- --store=$(PAWL_STORE)", "- --store=$(PAWL_STORES)", "refers to a variable"},
	} {
		text := strings.Replace(texts[one.form], one.old, one.new, 1)
		if text == texts[one.form] {
			t.Errorf("%s has no %q", one.form, one.old)
			continue
		}
		all, err := decode([]byte(text))
		var found []string
		if err != nil {
			found = []string{err.Error()}
		} else {
			found = faultsOf(all, image)
		}
		if !slices.ContainsFunc(found, func(fault string) bool { return strings.Contains(fault, one.want) }) {
			t.Errorf("%s with %q: found %q, want %q", one.form, one.new, found, one.want)
		}
	}
}

// TestSidecarsStart starts the sidecar of the two forms with a directory as their containers do, on other paths and
// ports, executes their probes, and stops them by SIGTERM.
func TestSidecarsStart(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"app", "standalone"} {
		all, err := decode(render(t, form))
		if err != nil {
			t.Fatal(err)
		}
		sidecar := all.workloads[0].containers()[0]
		env, err := all.variables(imageEnv(t), sidecar)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		pack, err := filepath.Abs(filepath.Join(overlays, "app/shop.pack.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, sidecar.Args, env, "/data/store", filepath.Join(dir, "store"), "/packs/shop.pack.yaml", pack, "/etc/pawl/secret/tokens", tokens(t, dir))
		for _, probe := range []*corev1.Probe{sidecar.StartupProbe, sidecar.ReadinessProbe, sidecar.LivenessProbe} {
			if probe.Exec != nil {
				s.healthy(t, probe.Exec.Command)
			}
		}
		s.healthy(t, []string{"/pawl", "health"}) // as a probe of the kind grpc: without a token
		s.stop(t)
	}
}

// TestSecretsArePrepared compares the Secrets that the overlays mount with those that the page makes.
func TestSecretsArePrepared(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/operations/kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, line := range regexp.MustCompile(`kubectl -n pawl create secret generic (\S+)(.*)`).FindAllStringSubmatch(string(page), -1) {
		made[line[1]] += line[2]
	}
	for _, form := range forms {
		all, err := decode(render(t, form))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all.workloads {
			for _, v := range w.pod.Volumes {
				if v.Secret != nil && made[v.Secret.SecretName] == "" {
					t.Errorf("%s mounts the Secret %s, which the page does not make", form, v.Secret.SecretName)
				}
			}
			for _, one := range w.containers() {
				env, err := all.variables(imageEnv(t), one)
				if err != nil {
					t.Fatal(err)
				}
				for _, value := range append(slices.Collect(maps.Values(env)), one.Args...) {
					if _, key, found := strings.Cut(value, "/etc/pawl/secret/"); found && !strings.Contains(made["pawl"], "--from-file="+key) {
						t.Errorf("%s reads the key %s of the Secret, which the page does not make: %v", form, key, made)
					}
				}
			}
		}
	}
}
