package cluster

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// podManifest is all that deploy/kubernetes/sidecar.yaml says; another field is a fault of it.
type podManifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		ServiceName string `yaml:"serviceName"`
		Replicas    int
		Selector    struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				AutomountServiceAccountToken  *bool          `yaml:"automountServiceAccountToken"`
				EnableServiceLinks            *bool          `yaml:"enableServiceLinks"`
				TerminationGracePeriodSeconds int            `yaml:"terminationGracePeriodSeconds"`
				SecurityContext               map[string]any `yaml:"securityContext"`
				InitContainers                []podContainer `yaml:"initContainers"`
				Containers                    []podContainer
				Volumes                       []podVolume
			}
		}
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   map[string]map[string]string
			}
		} `yaml:"volumeClaimTemplates"`
	}
}

type podVolume struct {
	Name      string
	ConfigMap *struct{ Name string } `yaml:"configMap"`
	EmptyDir  *struct {
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
}

type podContainer struct {
	Name, Image   string
	RestartPolicy string `yaml:"restartPolicy"`
	Args          []string
	Env           []struct{ Name, Value string }
	StartupProbe  podProbe `yaml:"startupProbe"`
	LivenessProbe podProbe `yaml:"livenessProbe"`
	Resources     map[string]map[string]string
	Security      struct {
		AllowPrivilegeEscalation *bool                   `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                    `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string } `yaml:"capabilities"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type podProbe struct {
	Exec             struct{ Command []string }
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

func (c podContainer) value(name string) string {
	for _, one := range c.Env {
		if one.Name == name {
			return one.Value
		}
	}
	return ""
}

// TestSidecarInPod: app and sidecar of the manifest fit each other, and the sidecar starts and is
// healthy as its container says, on other paths and ports.
func TestSidecarInPod(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../deploy/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set podManifest
	if err := yaml.UnmarshalWithOptions(raw, &set, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.TerminationGracePeriodSeconds < 60 {
		t.Fatalf("%+v", pod)
	}
	if label := set.Spec.Selector.MatchLabels["app.kubernetes.io/name"]; label == "" || label != set.Spec.Template.Metadata.Labels["app.kubernetes.io/name"] {
		t.Errorf("the selector %v does not select the pod", set.Spec.Selector)
	}
	sidecar, app := pod.InitContainers[0], pod.Containers[0]
	if sidecar.RestartPolicy != "Always" {
		t.Errorf("an init container with the restart policy %q ends before the app starts", sidecar.RestartPolicy)
	}
	for _, c := range []podContainer{sidecar, app} {
		if up := c.Security.AllowPrivilegeEscalation; up == nil || *up || !c.Security.ReadOnlyRootFilesystem || !slices.Equal(c.Security.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: %+v", c.Name, c.Security)
		}
	}
	listen := sidecar.value("PAWL_LISTEN")
	if host, _, err := net.SplitHostPort(listen); err != nil || !net.ParseIP(host).IsLoopback() || app.value("PAWL_ADDR") != listen {
		t.Errorf("the sidecar listens at %q, the app calls %q", listen, app.value("PAWL_ADDR"))
	}
	volumes := []string{set.Spec.VolumeClaimTemplates[0].Metadata.Name}
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	kept := false
	for _, mount := range sidecar.VolumeMounts {
		if !slices.Contains(volumes, mount.Name) {
			t.Errorf("the pod has no volume %q: %v", mount.Name, volumes)
		}
		kept = kept || mount.Name == volumes[0] && strings.HasPrefix(sidecar.value("PAWL_DATA"), mount.MountPath+"/")
	}
	if !kept {
		t.Errorf("the store %q is not on the volume that is kept", sidecar.value("PAWL_DATA"))
	}

	dir := t.TempDir()
	here := strings.NewReplacer("/packs/shop.pack.yaml", "../../../examples/quickstart-python/shop.pack.yaml", "127.0.0.1:7292", "127.0.0.1:0")
	args := make([]string, 0, len(sidecar.Args))
	for _, arg := range sidecar.Args {
		args = append(args, here.Replace(arg))
	}
	serve := exec.Command(binary(t), args...)
	serve.Env = []string{"PAWL_LISTEN=127.0.0.1:0", "PAWL_DATA=" + filepath.Join(dir, "store")}
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = serve.Process.Kill(), serve.Wait() }()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ GRPC string }
	if err := yaml.Unmarshal(line, &ready); err != nil || ready.GRPC == "" {
		t.Fatal(err, string(line))
	}
	for _, probe := range []podProbe{sidecar.StartupProbe, sidecar.LivenessProbe} {
		if len(probe.Exec.Command) < 2 || probe.Exec.Command[0] != "/pawl" || probe.FailureThreshold*probe.PeriodSeconds < 60 {
			t.Fatalf("%+v", probe)
		}
		check := exec.Command(binary(t), probe.Exec.Command[1:]...)
		check.Env = []string{"PAWL_ADDR=" + ready.GRPC}
		if text, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", probe.Exec.Command, err, text)
		}
	}
}
