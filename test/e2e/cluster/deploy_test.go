package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// deployed is a server by deploy/postgres/serve.
type deployed struct {
	t    *testing.T
	dir  string
	name string
	env  []string
	port int64
	// passwords is the directory with those of its users.
	passwords string
	cmd       *exec.Cmd
	output    *bytes.Buffer
}

// deploy prepares two servers in a directory that every user may write.
func deploy(t *testing.T, dir, passwords string) (servers [2]*deployed) {
	t.Helper()
	psql, err := pgserver.Program("psql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serve", "promote"} {
		content, err := os.ReadFile("../../../deploy/postgres/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ports := [2]int64{quietPort(t), quietPort(t)}
	for i := range servers {
		name := string(rune('a' + i))
		servers[i] = &deployed{t: t, dir: dir, name: name, port: ports[i], passwords: passwords, env: []string{
			"PATH=" + filepath.Dir(psql) + ":" + os.Getenv("PATH"), "PGDATA=" + filepath.Join(dir, "data-"+name), fmt.Sprint("PGPORT=", ports[i]),
			"PEER_HOST=127.0.0.1", fmt.Sprint("PEER_PORT=", ports[1-i]), "PASSWORDS=" + passwords, "CLIENTS=127.0.0.1/32",
		}}
	}
	return servers
}

// openDir returns a directory with a short name that every user may write.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-deploy-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// first has the server make the database.
func (d *deployed) first() (said string, err error) {
	d.t.Helper()
	cmd := exec.Command(filepath.Join(d.dir, "serve"), "first")
	if err := pgserver.RunAsServerUser(cmd); err != nil {
		d.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, d.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// brokenOff leaves what a first start leaves that was ended in the middle.
func (d *deployed) brokenOff() {
	d.t.Helper()
	left := filepath.Join(d.dir, "data-"+d.name+".new")
	cmd := exec.Command("sh", "-c", `mkdir "$1" && echo 15 >"$1/PG_VERSION"`, "sh", left)
	if err := pgserver.RunAsServerUser(cmd); err != nil {
		d.t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatal(string(out), err)
	}
}

func (d *deployed) password(user string) string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.passwords, user))
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

func (d *deployed) start() {
	d.t.Helper()
	d.cmd, d.output = exec.Command(filepath.Join(d.dir, "serve")), &bytes.Buffer{}
	if err := pgserver.RunAsServerUser(d.cmd); err != nil {
		d.t.Fatal(err)
	}
	d.cmd.Env = append(d.cmd.Env, d.env...)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	d.cmd.WaitDelay = time.Second
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		d.kill()
		if d.t.Failed() {
			d.t.Logf("%s said:\n%s", d.name, d.output)
		}
	})
}

func (d *deployed) kill() {
	_ = d.cmd.Process.Signal(syscall.SIGQUIT)
	_ = d.cmd.Wait()
}

// queryAs has a user say something, until it is answered or the time is over.
func (d *deployed) queryAs(user string, within time.Duration, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), within)
	defer cancel()
	database := map[string]string{"pawl": "pawl", "replicator": "postgres"}[user]
	var last error
	for ctx.Err() == nil {
		conn, err := pgconn.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s sslmode=disable", d.port, user, d.password(user), database))
		if last = err; err != nil {
			continue
		}
		result, err := conn.Exec(ctx, sql).ReadAll()
		_ = conn.Close(context.Background())
		if err == nil && len(result) > 0 && len(result[0].Rows) > 0 {
			return string(result[0].Rows[0][0]), nil
		}
		return "", err
	}
	return "", errors.Join(ctx.Err(), last)
}

// awaits waits until a statement of a user answers true.
func (d *deployed) awaits(user, sql string) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got, err := d.queryAs(user, 5*time.Second, sql)
		if got == "t" {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s at %s: %q, %v", sql, d.name, got, err)
		}
	}
}

// TestDeployedDatabase runs the scripts of deploy/postgres with this machine's PostgreSQL. It makes
// two servers. The first one is lost, and the second one is promoted. The first one does not start
// beside it, and begins again as its standby.
func TestDeployedDatabase(t *testing.T) {
	t.Parallel()
	pgserver.Require(t)
	dir := openDir(t)
	for _, name := range []string{"pawl", "replicator"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of-"+name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	servers := deploy(t, dir, dir)
	a, b := servers[0], servers[1]
	a.brokenOff()
	if said, err := a.first(); err != nil {
		t.Fatal(said, err)
	}
	if said, err := a.first(); err == nil || !strings.Contains(said, "is there already") {
		t.Fatalf("a second database in the place of the first: %s", said)
	}
	a.start()
	b.start()
	b.awaits("replicator", "SELECT pg_is_in_recovery()")
	if _, err := a.queryAs("pawl", patience, "CREATE TABLE kept AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	promote := func() (string, error) {
		at := func(d *deployed) string {
			return fmt.Sprintf("host=127.0.0.1 port=%d user=replicator dbname=postgres", d.port)
		}
		cmd := exec.Command(filepath.Join(dir, "promote"), at(a), at(b))
		cmd.Env = []string{a.env[0], "PGPASSWORD=of-replicator"}
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	if said, err := promote(); err == nil || !strings.Contains(said, "still takes writes") {
		t.Fatalf("a standby was promoted beside its primary: %s", said)
	}
	a.kill()
	for range 2 { // The second time it only looks.
		if said, err := promote(); err != nil || !strings.Contains(said, "its commits wait for a standby") {
			t.Fatal(said, err)
		}
	}
	if got, err := b.queryAs("pawl", patience, "SELECT n FROM kept"); got != "1" {
		t.Fatal(got, err)
	}
	a.start()
	if err := a.cmd.Wait(); err == nil || !strings.Contains(a.output.String(), "is the primary now") {
		t.Fatalf("the old primary came back: %v\n%s", err, a.output)
	}
	if err := os.RemoveAll(filepath.Join(dir, "data-a")); err != nil {
		t.Fatal(err)
	}
	if said, err := a.first(); err == nil || !strings.Contains(said, "has the database already") {
		t.Fatalf("a second database beside the other server's: %s", said)
	}
	a.start()
	if _, err := b.queryAs("pawl", patience, "INSERT INTO kept VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	a.awaits("replicator", "SELECT pg_is_in_recovery()")
}
