package deploy

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

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeDir is the directory of the compose files.
const composeDir = root + "/deploy/compose"

// composed loads a compose file, with the services of all profiles. The loader refuses what the schema of compose
// does not have, and references that lead nowhere.
func composed(t *testing.T, content []byte) (*types.Project, error) {
	t.Helper()
	dir, err := filepath.Abs(composeDir)
	if err != nil {
		t.Fatal(err)
	}
	details := types.ConfigDetails{WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: content}}}
	return loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.Profiles = []string{"*"} })
}

// composeFile returns a compose file, and what it says.
func composeFile(t *testing.T, name string) ([]byte, *types.Project) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(composeDir, name))
	if err != nil {
		t.Fatal(err)
	}
	project, err := composed(t, content)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return content, project
}

// environment is that of a service over that of the image.
func environment(t *testing.T, service types.ServiceConfig) map[string]string {
	t.Helper()
	env := imageEnv(t)
	for name, value := range service.Environment {
		if value == nil {
			t.Errorf("%s takes %s from the shell", service.Name, name)
			continue
		}
		env[name] = *value
	}
	return env
}

// TestComposeFiles: each service of the compose files may do no more than it needs, is reached from this machine
// only, and mounts files that exist. `pawl serve` accepts the settings of each sidecar.
func TestComposeFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(composeDir, "*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	sidecars := map[string]int{}
	for _, file := range files {
		name := filepath.Base(file)
		_, project := composeFile(t, name)
		for _, service := range project.Services {
			limited(t, name, service)
			if !strings.HasPrefix(service.Image, "pawl:") {
				continue
			}
			sidecars[name]++
			in, err := inEffect(service.Command, environment(t, service))
			if err != nil {
				t.Errorf("%s: %s: %v", name, service.Name, err)
				continue
			}
			for _, file := range append([]string{in.TokensFile, in.StorePasswordFile, in.Data}, in.Pack...) {
				if file != "" && !mounted(service, file) {
					t.Errorf("%s: %s: %s is on no volume", name, service.Name, file)
				}
			}
			if in.TokensFile == "" || in.InsecureBind || (in.Store == "") == (in.Data == "") {
				t.Errorf("%s: %s: %+v", name, service.Name, in)
			}
			if several := name == "compose.yaml"; several != (in.Store != "") || several && (in.PeerAddress != service.Name+":7292" || in.PeerListen != "0.0.0.0:7292") {
				t.Errorf("%s: %s: %+v", name, service.Name, in)
			}
		}
	}
	if want := map[string]int{"app.yaml": 1, "compose.yaml": 3}; !maps.Equal(sidecars, want) {
		t.Errorf("sidecars: %v, want %v", sidecars, want)
	}
}

// limited checks what a service may do, and its image, ports and mounts.
func limited(t *testing.T, file string, service types.ServiceConfig) {
	t.Helper()
	if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s: %s may do more than it needs", file, service.Name)
	}
	if !regexp.MustCompile(`:[0-9]+\.[0-9]`).MatchString(service.Image) {
		t.Errorf("%s: %s: the image %q names no version", file, service.Name, service.Image)
	}
	for _, port := range service.Ports {
		if port.HostIP != "127.0.0.1" {
			t.Errorf("%s: %s: the port %s is open to other machines", file, service.Name, port.Published)
		}
	}
	for _, volume := range service.Volumes {
		// The directories that the commands at the head of the file make are not in the repository.
		base := filepath.Base(volume.Source)
		if made := base == "secrets" || base == "db" || filepath.Base(filepath.Dir(volume.Source)) == "secrets"; volume.Type != types.VolumeTypeBind || made {
			continue
		}
		if _, err := os.Stat(volume.Source); err != nil || !volume.ReadOnly {
			t.Errorf("%s: %s mounts %s, which can be written or does not exist: %v", file, service.Name, volume.Source, err)
		}
	}
}

// mounted reports whether a file of the container is on a volume.
func mounted(service types.ServiceConfig, file string) bool {
	return slices.ContainsFunc(service.Volumes, func(v types.ServiceVolumeConfig) bool {
		return file == v.Target || strings.HasPrefix(file, v.Target+"/")
	})
}

// TestComposedApp does what the head of app.yaml says, but for containers: its commands make the token, the
// sidecar starts as its container would, and the app's address and token belong to it.
func TestComposedApp(t *testing.T) {
	t.Parallel()
	content, project := composeFile(t, "app.yaml")
	sidecar, app := project.Services["pawl"], project.Services["app"]
	if app.DependsOn["pawl"].Condition != types.ServiceConditionHealthy {
		t.Errorf("the app starts before the sidecar serves: %+v", app.DependsOn)
	}
	dir := t.TempDir()
	prepare(t, dir, string(content))
	pack, err := filepath.Abs(filepath.Join(root, "examples/quickstart-python/shop.pack.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	env := environment(t, sidecar)
	if want := "pawl" + strings.TrimPrefix(env["PAWL_LISTEN"], "0.0.0.0"); *app.Environment["PAWL_ADDR"] != want {
		t.Errorf("the app calls %s, want %s", *app.Environment["PAWL_ADDR"], want)
	}
	here := []string{"/data/store", filepath.Join(dir, "store"), "/packs/shop.pack.yaml", pack, "/run/secrets", filepath.Join(dir, "secrets")}
	s := start(t, sidecar.Command, env, here...)
	s.healthy(t, []string{"/pawl", "health"})
	token := strings.NewReplacer(here...).Replace(*app.Environment["PAWL_TOKEN_FILE"])
	list, err := command(map[string]string{"PAWL_ADDR": s.GRPC, "PAWL_TOKEN_FILE": token}, "runs", "list")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("the app's token: %v: %s", err, out)
	}
	s.stop(t)
}

// prepare executes the commands at the head of a compose file that come before the first one of Docker.
func prepare(t *testing.T, dir, content string) {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	if program, err = filepath.Abs(program); err != nil {
		t.Fatal(err)
	}
	var script []string
	for line := range strings.Lines(content) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "#   ")
		if strings.HasPrefix(command, "docker ") {
			break
		}
		if is && !strings.HasPrefix(command, "make ") {
			script = append(script, command)
		}
	}
	words := strings.NewReplacer("cd deploy/compose && ", "", "../../dist/pawl-linux-amd64", program, "sudo chown", "true")
	shell := exec.Command("bash", "-euc", words.Replace(strings.Join(script, "\n")))
	shell.Dir = dir
	if out, err := shell.CombinedOutput(); err != nil || len(script) == 0 {
		t.Fatalf("%v: %s\n%s", err, out, strings.Join(script, "\n"))
	}
}

// TestComposeFaultsAreFound: the loader refuses what compose does not know, and what leads nowhere.
func TestComposeFaultsAreFound(t *testing.T) {
	t.Parallel()
	content, _ := composeFile(t, "app.yaml")
	for _, one := range []struct{ old, new, want string }{
		{"read_only: true", "readonly: true", "readonly"},
		{"restart: always", "restart: [always]", "restart"},
		{"pawl: {condition: service_healthy}", "sidecar: {condition: service_healthy}", "sidecar"},
		{"- data:/data", "- dat:/data", "dat"},
	} {
		changed := bytes.Replace(content, []byte(one.old), []byte(one.new), 1)
		if _, err := composed(t, changed); bytes.Equal(changed, content) || err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%q: %v, want %q", one.new, err, one.want)
		}
	}
}
