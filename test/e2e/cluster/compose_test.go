package cluster

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

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
	return env
}

// composed is a service of the compose file. test/deploy decodes the file strictly.
type composed struct {
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
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

// composition is what the compose file makes, without containers: a directory in which its first commands
// were run, and the two servers.
type composition struct {
	t        *testing.T
	dir      string
	services map[string]composed
	servers  [2]*deployed
	// program is a copy of the sidecar that every user may run. token is the operator's token.
	program, token string
}

// TestComposed does what the head of the compose file says, but for containers: its commands make secrets for
// the users that the images have, the scripts make and serve the two servers, and each sidecar serves
// with the image's environment and its own, as the image's user. The namespaces are shared.
func TestComposed(t *testing.T) {
	t.Parallel()
	pgserver.Require(t)
	c := &composition{t: t, dir: openDir(t)}
	raw, services := composeFile(t)
	c.services = services
	c.copyProgram()
	c.prepare(raw)
	c.servers = deploy(t, c.dir, filepath.Join(c.dir, "db"))
	if said, err := c.servers[0].first(); err != nil {
		t.Fatal(said, err)
	}
	for _, server := range c.servers {
		server.start()
	}
	c.servers[0].awaits("pawl", "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
	var nodes []*node
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if strings.HasPrefix(name, "pawl-") {
			nodes = append(nodes, c.serve(name))
		}
	}
	c.awaitSharing(nodes)
	for _, n := range nodes {
		n.end(syscall.SIGTERM)
		if code := n.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("node %s: exit code %d after SIGTERM", n.name, code)
		}
	}
	c.checked(nodes[0])
}

// copyProgram copies the sidecar to a place where every user may run it.
func (c *composition) copyProgram() {
	c.t.Helper()
	c.program = filepath.Join(c.dir, "sidecar")
	from, err := os.Open(binary(c.t))
	if err != nil {
		c.t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(c.program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		c.t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// prepare runs the commands that come before the first one of Docker, as root if this is: else all is one
// user's.
func (c *composition) prepare(raw string) {
	c.t.Helper()
	var script []string
	for line := range strings.Lines(raw) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "#   ")
		if strings.HasPrefix(command, "docker ") {
			break
		}
		if is && !strings.HasPrefix(command, "make ") {
			script = append(script, command)
		}
	}
	server := &exec.Cmd{}
	if err := pgserver.RunAsServerUser(server); err != nil {
		c.t.Fatal(err)
	}
	chown, owner := "true", "0:0"
	if credential := server.SysProcAttr.Credential; credential != nil {
		chown, owner = "chown", fmt.Sprintf("%d:%d", credential.Uid, credential.Gid)
	}
	words := strings.NewReplacer("cd deploy/compose && ", "", "../../dist/pawl-linux-amd64", c.program, "sudo chown", chown, "999:999", owner)
	shell := exec.Command("bash", "-euc", words.Replace(strings.Join(script, "\n")))
	shell.Dir, shell.Stderr = c.dir, os.Stderr
	out, err := shell.Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		c.t.Fatalf("%v: %q\n%s", err, lines, strings.Join(script, "\n"))
	}
	c.token = lines[1]
}

// serve starts a sidecar as its container would be.
func (c *composition) serve(name string) *node {
	c.t.Helper()
	service, peer := c.services[name], fmt.Sprintf("127.0.0.1:%d", quietPort(c.t))
	here := []string{
		"=0.0.0.0:7291", "=127.0.0.1:0", "0.0.0.0:7292", peer, name + ":7292", peer,
		"db-a:5432,db-b:5432", fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", c.servers[0].port, c.servers[1].port),
	}
	for _, volume := range service.Volumes {
		parts := strings.Split(volume, ":")
		here = append(here, parts[1], filepath.Join(c.dir, parts[0]))
	}
	words := strings.NewReplacer(here...)
	n := newNode(c.t, name)
	for _, arg := range service.Command[1:] {
		n.args = append(n.args, words.Replace(arg))
	}
	env := imageEnv(c.t)
	maps.Copy(env, service.Environment)
	for variable, value := range env {
		n.env = append(n.env, variable+"="+words.Replace(value))
	}
	n.program = c.program
	if os.Getuid() == 0 {
		n.user = &syscall.Credential{Uid: 65532, Gid: 65532}
		if err := os.Chown(n.dir, 65532, 65532); err != nil {
			c.t.Fatal(err)
		}
	}
	n.start()
	return n
}

// awaitSharing waits until each sidecar has one of the three namespaces, as the operator sees.
func (c *composition) awaitSharing(nodes []*node) {
	c.t.Helper()
	c.servers[0].awaits("pawl", "SELECT count(DISTINCT address) = 3 FROM pawl.part WHERE lease_until > now()")
	cmd := exec.Command(c.program, "partitions", "--addr", "unix:"+nodes[0].socket)
	cmd.Env = append(os.Environ(), "PAWL_TOKEN="+c.token)
	out, err := cmd.CombinedOutput()
	for _, space := range []string{"default", "red", "blue"} {
		if err != nil || !strings.Contains(string(out), space) {
			c.t.Fatalf("no %s: %v\n%s", space, err, out)
		}
	}
}

// checked: the store that they leave is in order, by the command of the file's head.
func (c *composition) checked(n *node) {
	c.t.Helper()
	var store string
	for _, arg := range n.args {
		if url, is := strings.CutPrefix(arg, "--store="); is {
			store = url
		}
	}
	cmd := exec.Command(c.program, "check", "--store", store)
	cmd.Env = append(os.Environ(), n.env...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "in order") {
		c.t.Errorf("%v: %s", err, out)
	}
}
