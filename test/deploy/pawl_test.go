package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// root is the directory of the repository.
const root = "../.."

// built is the binary of this source tree, or the one that PAWL_SIDECAR names.
var built = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("PAWL_SIDECAR"); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp("", "pawl-deploy")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "pawl")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/sidecar")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("PAWL_SIDECAR") == "" {
		if program, err := built(); err == nil {
			_ = os.RemoveAll(filepath.Dir(program))
		}
	}
	os.Exit(code)
}

// command returns a command of the binary that sees only the environment env.
func command(env map[string]string, args ...string) (*exec.Cmd, error) {
	program, err := built()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd, nil
}

// parses returns an error if the binary does not accept a command line. Nothing is executed: --help
// comes last, after the flags were parsed.
func parses(args []string) error {
	cmd, err := command(nil, append(slices.Clone(args), "--help")...)
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("pawl %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
	}
	if use := "pawl " + args[0]; !strings.Contains(string(out), use) {
		return fmt.Errorf("the help of %q is not about %q", args, use)
	}
	return nil
}

// flagsOfServe are the names of the flags of `pawl serve`.
var flagsOfServe = sync.OnceValues(func() (map[string]bool, error) {
	cmd, err := command(nil, "serve", "--help")
	if err != nil {
		return nil, err
	}
	help, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	flags := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\s+-{1,2}([a-z0-9-]+)`).FindAllStringSubmatch(string(help), -1) {
		flags[found[1]] = true
	}
	return flags, nil
})

// settings are the settings in effect of a sidecar that this package asks for.
type settings struct {
	Data              string   `json:"data"`
	Store             string   `json:"store"`
	StorePasswordFile string   `json:"store_password_file"`
	Listen            string   `json:"listen"`
	PeerListen        string   `json:"peer_listen"`
	PeerAddress       string   `json:"peer_address"`
	HTTP              string   `json:"http"`
	Metrics           string   `json:"metrics"`
	TokensFile        string   `json:"tokens_file"`
	InsecureBind      bool     `json:"insecure_bind"`
	Pack              []string `json:"pack"`
	AllowTool         []string `json:"allow_tool"`
	DrainTimeout      string   `json:"drain_timeout"`
}

// inEffect returns the settings that `pawl serve` has with these arguments and this environment. It is an
// error if `pawl serve` does not start with them, or if a PAWL_ variable is no setting.
func inEffect(args []string, env map[string]string) (settings, error) {
	var s settings
	if len(args) == 0 || args[0] != "serve" {
		return s, fmt.Errorf("the arguments %q do not serve", args)
	}
	flags, err := flagsOfServe()
	if err != nil {
		return s, err
	}
	for name := range env {
		if setting, ours := strings.CutPrefix(name, "PAWL_"); ours && !flags[strings.ReplaceAll(strings.ToLower(setting), "_", "-")] {
			return s, fmt.Errorf("%s is no setting of pawl serve", name)
		}
	}
	cmd, err := command(env, append(slices.Clone(args), "--print-config", "--output=json")...)
	if err != nil {
		return s, err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("pawl serve refuses its settings: %s", out)
	}
	return s, json.Unmarshal(out, &s)
}

// imageEnv is the environment that the container image sets.
func imageEnv(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "Containerfile"))
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
		t.Fatalf("the image sets no directory of the store: %v", env)
	}
	return env
}

// served is a sidecar that a test started as a container would.
type served struct {
	GRPC string `json:"grpc"`
	HTTP string `json:"http"`
	cmd  *exec.Cmd
}

// start starts a sidecar with the arguments and environment of a container, but on free ports of loopback
// and with the paths of the container mapped to others (container path, path, ...). It waits for the ready line.
func start(t *testing.T, args []string, env map[string]string, paths ...string) served {
	t.Helper()
	const free = "127.0.0.1:0"
	words := strings.NewReplacer(append(paths, "0.0.0.0:7291", free, "127.0.0.1:7291", free, "127.0.0.1:7292", free, "0.0.0.0:9090", free)...)
	moved := maps.Clone(env)
	for name, value := range moved {
		moved[name] = words.Replace(value)
	}
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = words.Replace(arg)
	}
	cmd, err := command(moved, args...)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the sidecar does not start: %v\n%s", err, log.String())
	}
	s := served{cmd: cmd}
	if err := json.Unmarshal(line, &s); err != nil || s.GRPC == "" {
		t.Fatal(err, string(line))
	}
	return s
}

// healthy executes a probe's command against the sidecar.
func (s served) healthy(t *testing.T, probe []string) {
	t.Helper()
	cmd, err := command(map[string]string{"PAWL_ADDR": s.GRPC}, probe[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v: %s", probe, err, out)
	}
}

// stop sends SIGTERM, as a kubelet does, and expects the exit code 0.
func (s served) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// tokens writes a file of tokens, with `pawl token new`, and returns its path.
func tokens(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "tokens")
	cmd, err := command(nil, "token", "new", "app", "runs:write,runs:read", "--file", path)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return path
}
