package deploy

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// databaseVar names the URL of a PostgreSQL server. .ci/test-postgres sets it.
const databaseVar = "PAWL_TEST_DATABASE"

// node is one sidecar of a cluster as a file of deploy/ describes it.
type node struct {
	args []string
	env  map[string]string
}

// TestClustersStart starts the three sidecars of each cluster form on one database, as their containers do but on
// loopback. Each serves the runs that were started at the others, also after one of them was killed.
func TestClustersStart(t *testing.T) {
	t.Parallel()
	database := os.Getenv(databaseVar)
	if database == "" {
		t.Skip(databaseVar + " names no database; .ci/test-postgres starts one")
	}
	for name, nodes := range map[string][]node{"kubernetes": podsOfCluster(t), "compose": composedCluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started, token := startCluster(t, nodes, database, "deploy_"+name)
			pack, err := filepath.Abs(filepath.Join(overlays, "app/shop.pack.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			runs := map[string]string{}
			for i, namespace := range []string{"default", "red", "blue"} {
				started[0].must(t, token, "packs", "register", pack, "--namespace", namespace)
				printed := started[i].must(t, token, "runs", "start", "shop", "--input", "o-1", "--namespace", namespace)
				runs[namespace], _, _ = strings.Cut(printed, " ")
			}
			for _, s := range started {
				s.servesRuns(t, token, runs)
			}
			_, _ = started[0].cmd.Process.Kill(), started[0].cmd.Wait()
			for _, s := range started[1:] {
				s.servesRuns(t, token, runs)
				s.stop(t)
			}
		})
	}
}

// podsOfCluster returns the three pods of the cluster overlay.
func podsOfCluster(t *testing.T) []node {
	t.Helper()
	all, err := decode(render(t, "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	sidecar := all.workloads[0].containers()[0]
	env, err := all.variables(imageEnv(t), sidecar)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Repeat([]node{{args: sidecar.Args, env: env}}, 3)
}

// composedCluster returns the three sidecars of compose.yaml.
func composedCluster(t *testing.T) []node {
	t.Helper()
	_, project := composeFile(t, "compose.yaml")
	var nodes []node
	for _, name := range []string{"pawl-a", "pawl-b", "pawl-c"} {
		service := project.Services[name]
		nodes = append(nodes, node{args: service.Command, env: environment(t, service)})
	}
	return nodes
}

// startCluster starts the nodes on a database without a standby, in a schema, and returns them with a token.
func startCluster(t *testing.T, nodes []node, database, schema string) (started []served, token string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens")
	create, err := command(nil, "token", "new", "app", "packs:write,runs:write,runs:read", "--file", file)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := create.Output()
	if err != nil {
		t.Fatal(err)
	}
	store, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := store.User.Password()
	store.User = url.User(store.User.Username())
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		env := maps.Clone(n.env)
		paths := []string{"0.0.0.0:7292", "127.0.0.1:0"}
		for name, value := range env {
			switch {
			case strings.HasSuffix(name, "TOKENS_FILE"):
				paths = append(paths, value, file)
			case strings.HasSuffix(name, "PASSWORD_FILE"):
				paths = append(paths, value, password)
			case strings.HasPrefix(value, "postgres://"):
				paths = append(paths, value, store.String())
			}
		}
		for _, arg := range n.args {
			name, value, _ := strings.Cut(arg, "=")
			switch name {
			case "--tokens-file":
				paths = append(paths, value, file)
			case "--store":
				paths = append(paths, value, store.String())
			}
		}
		// The names of pods and services lead nowhere here. A node's address is where it listens.
		delete(env, "PAWL_PEER_ADDRESS")
		env["PAWL_STORE_SCHEMA"], env["PAWL_ACCEPT_LOSS_ON_FAILOVER"] = schema, "true"
		started = append(started, start(t, n.args, env, paths...))
	}
	return started, strings.TrimSpace(string(printed))
}

// must executes a command against the sidecar, and returns what it prints.
func (s served) must(t *testing.T, token string, args ...string) string {
	t.Helper()
	out, err := s.try(t, token, args...)
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return out
}

func (s served) try(t *testing.T, token string, args ...string) (string, error) {
	t.Helper()
	cmd, err := command(map[string]string{"PAWL_ADDR": s.GRPC, "PAWL_TOKEN": token}, args...)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	return string(out) + log.String(), err
}

// servesRuns waits until the sidecar shows the run of each namespace. After a node was killed, another node first has
// to take over its namespace.
func (s served) servesRuns(t *testing.T, token string, runs map[string]string) {
	t.Helper()
	for namespace, run := range runs {
		for deadline := time.Now().Add(time.Minute); ; {
			out, err := s.try(t, token, "runs", "show", run, "--namespace", namespace)
			if err == nil && strings.Contains(out, run) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not show the run %s of %s: %v: %s", s.GRPC, run, namespace, err, out)
			}
		}
	}
}
