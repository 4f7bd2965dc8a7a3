package cluster

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// flagsOf are the flags that a command says it has.
func flagsOf(t *testing.T, command string) map[string]bool {
	t.Helper()
	help, err := exec.Command(binary(t), command, "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(help))
	}
	flags := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\s+-{1,2}([a-z0-9-]+)`).FindAllStringSubmatch(string(help), -1) {
		flags[found[1]] = true
	}
	return flags
}

// imageEnv is the environment that the image gives.
func imageEnv(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^ENV (.+)$`).FindAllStringSubmatch(string(raw), -1) {
		for one := range strings.FieldsSeq(line[1]) {
			name, value, _ := strings.Cut(one, "=")
			env[name] = value
		}
	}
	if env["PAWL_DATA"] == "" {
		t.Errorf("the image has its store nowhere: %v", env)
	}
	return env
}

// given are the settings that a container's command and environment give besides the image's.
func given(t *testing.T, args []string, env map[string]string) map[string]string {
	t.Helper()
	settings, all := map[string]string{}, imageEnv(t)
	maps.Copy(all, env)
	for name, value := range all {
		if setting, ours := strings.CutPrefix(name, "PAWL_"); ours {
			settings[strings.ReplaceAll(strings.ToLower(setting), "_", "-")] = value
		}
	}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		settings[name] = value
	}
	return settings
}

// serves: a command line is one of serve's, an environment has its settings, and together they name one
// database and no directory.
func serves(t *testing.T, where string, flags map[string]bool, args []string, env map[string]string) {
	t.Helper()
	if len(args) < 2 || args[0] != "serve" {
		t.Errorf("%s: %v", where, args)
		return
	}
	settings := given(t, args[1:], env)
	for name := range settings {
		if !flags[name] {
			t.Errorf("%s: serve has no --%s", where, name)
		}
	}
	for _, name := range []string{"store", "store-password-file", "peer-listen", "peer-address", "tokens-file"} {
		if settings[name] == "" {
			t.Errorf("%s: no --%s", where, name)
		}
	}
	if settings["data"] != "" {
		t.Errorf("%s: the directory %s besides the database", where, settings["data"])
	}
}

// composed is a service of the compose file.
type composed struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	Ports       []string          `yaml:"ports"`
}

// composeFile is the file, and its services.
func composeFile(t *testing.T) (raw string, services map[string]composed) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]composed }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return string(text), file.Services
}

// TestComposeFile: its sidecars have flags that there are, nothing else that they could do, and
// what it mounts of this directory is there.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	_, services := composeFile(t)
	flags, sidecars := flagsOf(t, "serve"), 0
	for name, service := range services {
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may do more than it needs", name)
		}
		if !regexp.MustCompile(`:[0-9]+\.[0-9]`).MatchString(service.Image) {
			t.Errorf("%s: %s names no version", name, service.Image)
		}
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join("../../../deploy/compose", from)); strings.HasPrefix(from, "..") && err != nil {
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
			serves(t, name, flags, service.Command, service.Environment)
		}
	}
	if sidecars != 3 {
		t.Errorf("%d sidecars", sidecars)
	}
}

// container is what is looked at of one.
type container struct {
	Image string
	Args  []string
	Env   []struct {
		Name, Value string
		ValueFrom   map[string]any `yaml:"valueFrom"`
	}
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
				Containers []container
			}
		}
	}
}

// TestManifests: the objects for Kubernetes fit each other, and their sidecars' flags are there.
func TestManifests(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../deploy/kubernetes/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]manifest{}
	command, err := os.ReadFile("../../../deploy/kubernetes/command.yaml")
	if err != nil {
		t.Fatal(err)
	}
	raw = slices.Concat(raw, []byte("---\n"), command)
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
	for _, name := range []string{"StatefulSet/pawl", "Service/pawl", "Service/pawl-peers", "PodDisruptionBudget/pawl", "NetworkPolicy/pawl", "ServiceAccount/pawl", "ConfigMap/pawl", "Job/pawl-command"} {
		if _, there := objects[name]; !there {
			t.Errorf("no %s", name)
		}
	}
	set, peers := objects["StatefulSet/pawl"], objects["Service/pawl-peers"]
	if set.Spec.Replicas != 3 || set.Spec.ServiceName != "pawl-peers" || peers.Spec.ClusterIP != "None" || !peers.Spec.PublishNotReadyAddresses || objects["PodDisruptionBudget/pawl"].Spec.MaxUnavailable != 1 {
		t.Errorf("%+v\n%+v", set.Spec, peers.Spec)
	}
	c := contained(t, set)
	if c.ReadinessProbe == nil || c.LivenessProbe == nil || c.StartupProbe == nil {
		t.Error("a probe is missing")
	}
	var ports []string
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
	serves(t, "the pod", flagsOf(t, "serve"), c.Args, c.env())

	job := contained(t, objects["Job/pawl-command"])
	if len(job.Args) < 2 || job.Image != c.Image {
		t.Fatalf("%+v", job)
	}
	flags := flagsOf(t, job.Args[0])
	for _, arg := range job.Args[1:] {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); !flags[name] {
			t.Errorf("%s has no --%s", job.Args[0], name)
		}
	}
}

// contained is the one container of an object, which may do no more than it needs.
func contained(t *testing.T, object manifest) container {
	t.Helper()
	pod := object.Spec.Template.Spec
	if on := pod.AutomountServiceAccountToken; on == nil || *on || !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	c := pod.Containers[0]
	if up := c.SecurityContext.AllowPrivilegeEscalation; up == nil || *up || !c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%+v", c.SecurityContext)
	}
	return c
}

// env is what it sets; what is from elsewhere is not empty.
func (c container) env() map[string]string {
	env := map[string]string{}
	for _, one := range c.Env {
		if env[one.Name] = one.Value; one.ValueFrom != nil {
			env[one.Name] = "from elsewhere"
		}
	}
	return env
}
