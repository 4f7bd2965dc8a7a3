package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// flagsOf are the flags that serve says it has.
func flagsOf(t *testing.T) map[string]bool {
	t.Helper()
	help, err := exec.Command(binary(t), "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(help))
	}
	flags := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\s+-{1,2}([a-z0-9-]+)`).FindAllStringSubmatch(string(help), -1) {
		flags[found[1]] = true
	}
	return flags
}

// serves: a command line is one of serve's, and an environment has its settings.
func serves(t *testing.T, where string, flags map[string]bool, args []string, env []string) {
	t.Helper()
	if len(args) < 2 || args[0] != "serve" {
		t.Errorf("%s: %v", where, args)
		return
	}
	given := map[string]bool{}
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		given[name] = true
	}
	for _, name := range env {
		if setting, ours := strings.CutPrefix(name, "PAWL_"); ours {
			given[strings.ReplaceAll(strings.ToLower(setting), "_", "-")] = true
		}
	}
	for name := range given {
		if !flags[name] {
			t.Errorf("%s: serve has no --%s", where, name)
		}
	}
	for _, name := range []string{"store", "store-password-file", "peer-listen", "peer-address", "tokens-file"} {
		if !given[name] {
			t.Errorf("%s: no --%s", where, name)
		}
	}
}

// TestComposeFile: its sidecars have flags that there are, nothing else that they could do, and
// what it mounts of this directory is there.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image       string            `yaml:"image"`
			Command     []string          `yaml:"command"`
			Environment map[string]string `yaml:"environment"`
			Volumes     []string          `yaml:"volumes"`
			ReadOnly    bool              `yaml:"read_only"`
			CapDrop     []string          `yaml:"cap_drop"`
			SecurityOpt []string          `yaml:"security_opt"`
			Ports       []string          `yaml:"ports"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	flags, sidecars := flagsOf(t), 0
	for name, service := range file.Services {
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may do more than it needs", name)
		}
		if !regexp.MustCompile(`:[0-9]+\.[0-9]`).MatchString(service.Image) {
			t.Errorf("%s: %s names no version", name, service.Image)
		}
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join("../../deploy/compose", from)); strings.HasPrefix(from, "..") && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is open at %s", name, port)
			}
		}
		if strings.HasPrefix(name, "pawl-") {
			sidecars++
			var env []string
			for variable := range service.Environment {
				env = append(env, variable)
			}
			serves(t, name, flags, service.Command, env)
		}
	}
	if sidecars != 3 {
		t.Errorf("%d sidecars", sidecars)
	}
}

// manifest is what is looked at of Kubernetes' objects.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		ServiceName              string `yaml:"serviceName"`
		Replicas                 int    `yaml:"replicas"`
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		MaxUnavailable           int    `yaml:"maxUnavailable"`
		Ports                    []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Spec struct {
				AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
				SecurityContext              struct {
					RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
					RunAsUser      int                   `yaml:"runAsUser"`
					SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				Containers []struct {
					Image          string
					Args           []string
					Env            []struct{ Name string }
					Ports          []struct{ Name string }
					ReadinessProbe *struct{} `yaml:"readinessProbe"`
					LivenessProbe  *struct{} `yaml:"livenessProbe"`
					StartupProbe   *struct{} `yaml:"startupProbe"`

					SecurityContext struct {
						AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
						ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
						Capabilities             struct{ Drop []string }
					} `yaml:"securityContext"`
				}
			}
		}
	}
}

// TestManifests: the objects for Kubernetes fit each other, and their sidecars' flags are there.
func TestManifests(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/kubernetes/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]manifest{}
	for decoder := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var one manifest
		if err := decoder.Decode(&one); err != nil {
			break
		}
		objects[one.Kind+"/"+one.Metadata.Name] = one
		if one.Metadata.Namespace != "pawl" {
			t.Errorf("%s is in %q", one.Kind, one.Metadata.Namespace)
		}
	}
	for _, name := range []string{"StatefulSet/pawl", "Service/pawl", "Service/pawl-peers", "PodDisruptionBudget/pawl", "NetworkPolicy/pawl", "ServiceAccount/pawl", "ConfigMap/pawl"} {
		if _, there := objects[name]; !there {
			t.Errorf("no %s", name)
		}
	}
	set, peers := objects["StatefulSet/pawl"], objects["Service/pawl-peers"]
	if set.Spec.Replicas != 3 || set.Spec.ServiceName != "pawl-peers" || peers.Spec.ClusterIP != "None" || !peers.Spec.PublishNotReadyAddresses || objects["PodDisruptionBudget/pawl"].Spec.MaxUnavailable != 1 {
		t.Errorf("%+v\n%+v", set.Spec, peers.Spec)
	}
	pod := set.Spec.Template.Spec
	if on := pod.AutomountServiceAccountToken; on == nil || *on || !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	c := pod.Containers[0]
	if up := c.SecurityContext.AllowPrivilegeEscalation; up == nil || *up || !c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%+v", c.SecurityContext)
	}
	if c.ReadinessProbe == nil || c.LivenessProbe == nil || c.StartupProbe == nil {
		t.Error("a probe is missing")
	}
	var env, ports []string
	for _, one := range c.Env {
		env = append(env, one.Name)
	}
	for _, one := range c.Ports {
		ports = append(ports, one.Name)
	}
	for _, service := range []string{"Service/pawl", "Service/pawl-peers"} {
		for _, port := range objects[service].Spec.Ports {
			if !slices.Contains(ports, port.TargetPort) {
				t.Errorf("%s asks for the port %s of %v", service, port.TargetPort, ports)
			}
		}
	}
	serves(t, "the pod", flagsOf(t), c.Args, env)
}
