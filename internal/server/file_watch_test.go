package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/output"
)

// TestFileWatch: a change is reported at the second look that finds the same files, until they are read. Files that are as
// they were read are not reported, also after other changes in between. After a failure they are reported once more.
func TestFileWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "data", "file")
	version := func(name, content string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name, "file")
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name string) {
		next := filepath.Join(dir, "next")
		if err := os.Symlink(name, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	version("v1", "a")
	version("v2", "b")
	link("v1")
	w := &fileWatch{config: config.Config{TokensFile: path, Prices: filepath.Join(dir, "missing")}}
	w.begin()
	look := func(want bool, what string) {
		t.Helper()
		if got, _ := w.look(); got != want {
			t.Errorf("%s: changed is not %v", what, want)
		}
	}
	look(false, "nothing")
	link("v2") // another file with the same size and time
	look(false, "the first look")
	look(true, "the second look")
	w.begin()
	look(false, "reported already")
	link("v1")
	look(false, "a swap")
	link("v2")
	look(false, "and back")
	look(false, "as it was read")
	if err := os.Chmod(filepath.Join(dir, "v2", "file"), 0o640); err != nil {
		t.Fatal(err)
	}
	look(false, "a mode, the first look")
	w.begin()
	look(false, "read by a signal")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(false, "removed, the first look")
	look(true, "removed, the second look")
	w.begin()
	w.failed()
	for n := range 2 * retryLooks {
		if _, again := w.look(); again != (n >= retryLooks-1) {
			t.Errorf("look %d after a failure: again is %v", n+1, again)
		}
	}
	w.begin()
	if _, again := w.look(); again {
		t.Error("files that are read are reported again")
	}
	var none *fileWatch
	none.begin()
	none.failed()
	if changed, again := none.look(); changed || again {
		t.Error("a watch of pipes reports a change")
	}
}

// TestFileWatchNested: the watch follows the files that other files name, from before they are read, and also if they are
// missing then.
func TestFileWatchNested(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := func(name string) string { return filepath.Join(dir, name) }
	put := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(name(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("issuers", "issuers: [{issuer: https://a, jwks: "+name("keys")+"}]")
	put("models", "m: http://h")
	put("keys", "{}")
	w := newFileWatch(config.Config{OIDCFile: name("issuers"), ModelsFile: name("models")})
	changes := func(what string) {
		t.Helper()
		w.look()
		if changed, _ := w.look(); !changed {
			t.Errorf("%s is not reported", what)
		}
		w.begin()
		if changed, _ := w.look(); changed {
			t.Errorf("%s is reported twice", what)
		}
	}
	put("keys", "{ }")
	changes("a file that another one names")
	put("models", "m: {url: http://h, key_file: "+name("key")+"}")
	changes("a file that names another one")
	put("key", "k")
	changes("a file that was missing")
}

// TestReloadWithoutStore: a token that was taken out of its file is refused even if no partition can store the schedules.
// The error is returned, so that the files are read again.
func TestReloadWithoutStore(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.TokensFile, c.Schedules = tokens(t, "old", "runs:read"), writeFile(t, "schedules.yaml", "{}")
	opts, err := serveOptions(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	a, err := open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	call := func(name string) codes.Code {
		conn, err := a.server.Dial(grpc.WithPerRPCCredentials(output.Bearer(secretFor(name))))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = pawlv1.NewRunServiceClient(conn).ListRuns(t.Context(), &pawlv1.ListRunsRequest{}, grpc.WaitForReady(true))
		return status.Code(err)
	}
	if got := call("old"); got != codes.OK {
		t.Fatalf("before: %s", got)
	}
	for path, text := range map[string]string{c.TokensFile: "new runs:read " + auth.Digested(secretFor("new")) + "\n", c.Schedules: `a: {cron: "@yearly", pack: not-there}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.reload(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("schedules that were not stored: %v", err)
	}
	if was, is := call("old"), call("new"); was != codes.Unauthenticated || is != codes.OK {
		t.Errorf("the old token: %s, the new one: %s", was, is)
	}
	if err := a.reload(t.Context(), nil); err != nil {
		t.Errorf("again: %v", err)
	}
}
