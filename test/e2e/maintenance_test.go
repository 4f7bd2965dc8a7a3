package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/child"
	"github.com/pawl-dev/pawl/test/testkit/powerdisk"
)

// allRuns is what a check says of each store of these tests.
const allRuns = "in order: runs 7, records 62, commits 53"

// maintenance is a command that opens a store itself. Its places are directories of one disk:
//
//   - data is a store, old the same store in the previous format, and sealed the same store encrypted with KEY;
//   - kept has three full backups of data, and one that continues the last;
//   - new does not exist.
type maintenance struct {
	name, command string
	// result is the place of the store in the end.
	result string
	// key and newKey are the keys of result, before and after the command.
	key, newKey string
	// unread is what a check of result may say after a kill, besides allRuns: a store that no sidecar serves before the
	// command was called again.
	unread string
	// again is what the command may say and fail when it is repeated although it is done.
	again string
	// keeps is a place that it only reads.
	keeps string
	// reads means that the command works also on a full disk, because it writes little or nothing.
	reads bool
}

var maintenances = []maintenance{
	{name: "check", command: "check --data data", result: "data"},
	{name: "repair", command: "check --repair --data data", result: "data"},
	{name: "stats", command: "stats --data data", result: "data"},
	{name: "verify", command: "runs verify --data data", result: "data"},
	{name: "compact", command: "compact data", result: "data"},
	{name: "compact to", command: "compact data --to new", result: "new", unread: "holds no store|it is not complete"},
	{name: "migrate", command: "migrate old", result: "old", unread: "is being migrated|it is not complete|has format 1"},
	{name: "backup", command: "backup kept --data data", result: "data"},
	{name: "prune", command: "backup prune kept --keep 1", result: "data", reads: true},
	{name: "backup verify", command: "backup verify kept --restore --scratch .", result: "data", keeps: "kept"},
	{name: "restore", command: "restore kept --data new", result: "new", unread: "holds no store", again: "new is not empty", keeps: "kept"},
	{name: "salvage", command: "salvage data --data new", result: "new", unread: "holds no store|it is not complete", again: "new is not empty", keeps: "data"},
	{
		name: "rotate-key", command: "rotate-key --data sealed --encryption-key-file KEY --new-key-file OTHER",
		result: "sealed", key: "KEY", newKey: "OTHER", again: "ENCRYPTION_KEY_SAME",
	},
	{name: "compact sealed", command: "compact sealed --encryption-key-file KEY", result: "sealed", key: "KEY", newKey: "KEY"},
}

// bench is a disk with the places of a maintenance command, and keys beside it.
type bench struct {
	*onDisk

	t *testing.T
	// made has the places as they are before each trial. keys has the files KEY, OTHER and THIRD.
	made, keys string
}

// newBench is nil where nothing can be mounted by FUSE.
func newBench(t *testing.T) *bench {
	t.Helper()
	o := newOnDisk(t, 1)
	if o == nil {
		return nil
	}
	b := newPlaces(t)
	b.onDisk = o
	t.Cleanup(b.disk.Resume)
	return b
}

// newPlaces makes the places, without a disk.
func newPlaces(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, keys: t.TempDir(), made: t.TempDir()}
	for n, name := range []string{"KEY", "OTHER", "THIRD"} {
		key := hex.EncodeToString(bytes.Repeat([]byte{byte(n + 1)}, 32))
		if err := os.WriteFile(filepath.Join(b.keys, name), []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyTree(t, "../../internal/server/testdata/format-1", filepath.Join(b.made, "old"))
	copyTree(t, "../../internal/server/testdata/format-2", filepath.Join(b.made, "data"))
	for _, command := range []string{
		"backup kept --data data", "backup kept --data data --full", "backup kept --data data --full", "backup kept --data data",
		"restore kept --data sealed --encryption-key-file KEY",
	} {
		b.succeeds(b.made, command)
	}
	return b
}

// words are those of a command, with the files of its keys.
func (b *bench) words(command string) []string {
	words := strings.Fields(command)
	for n, word := range words {
		if word == "KEY" || word == "OTHER" || word == "THIRD" {
			words[n] = filepath.Join(b.keys, word)
		}
	}
	return words
}

// started is a command that runs.
type started struct {
	*exec.Cmd

	said syncBuffer
	done chan struct{}
}

// launchIn starts a command in a directory. A shell goes there, because this process serves the disk and cannot wait for it
// between fork and exec.
func (b *bench) launchIn(dir, command string) *started {
	b.t.Helper()
	args := append([]string{"-c", `cd "$0" && exec "$@"`, dir, binary(b.t)}, b.words(command)...)
	c := &started{Cmd: exec.CommandContext(deadline(b.t, patience), "sh", args...), done: make(chan struct{})}
	c.Stdout, c.Stderr = &c.said, &c.said
	if err := child.Start(c.Cmd, syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		_ = c.Wait() // the state of the process has the result
		close(c.done)
	}()
	return c
}

// callIn runs a command in a directory and returns its exit code and its output.
func (b *bench) callIn(dir, command string) (code int, said string) {
	b.t.Helper()
	c := b.launchIn(dir, command)
	<-c.done
	said = c.said.String()
	if !c.ProcessState.Exited() || strings.Contains(said, "goroutine ") {
		b.t.Errorf("%s: %v: %s", command, c.ProcessState, said)
	}
	return c.ProcessState.ExitCode(), said
}

func (b *bench) succeeds(dir, command string) string {
	b.t.Helper()
	code, said := b.callIn(dir, command)
	if code != 0 {
		b.t.Fatalf("pawl %s: exit code %d\n%s", command, code, said)
	}
	return said
}

// fresh puts the places on the disk, synced, and returns where.
func (b *bench) fresh() string {
	b.t.Helper()
	dir := filepath.Join(b.mount, "trial")
	if err := os.RemoveAll(dir); err != nil {
		b.t.Fatal(err)
	}
	copyTree(b.t, b.made, dir)
	err := filepath.WalkDir(b.mount, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// sums are those of the files of a place, but for the note of the process that locks it. No file is mapped: this process serves the disk.
func (b *bench) sums(dir, place string) map[string][sha256.Size]byte {
	b.t.Helper()
	all := map[string][sha256.Size]byte{}
	if place == "" {
		return all
	}
	entries, err := os.ReadDir(filepath.Join(dir, place))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, place, e.Name()))
		if err != nil {
			b.t.Fatal(err)
		}
		all[e.Name()] = sha256.Sum256(raw)
	}
	return all
}

// checkKept checks that what the command only reads is as it was, and that the backups can be restored.
func (b *bench) checkKept(dir string, m *maintenance, before map[string][sha256.Size]byte) {
	b.t.Helper()
	if after := b.sums(dir, m.keeps); !maps.Equal(before, after) {
		b.t.Errorf("%s changed %s", m.name, m.keeps)
	}
	if strings.Contains(m.command, "kept") {
		b.succeeds(dir, "backup verify kept")
	}
}

// inOrder checks the store in the result's place. before means that the command did not end.
func (b *bench) inOrder(dir string, m *maintenance, before bool) {
	b.t.Helper()
	keys := []string{m.newKey}
	if before && m.key != m.newKey {
		keys = append(keys, m.key)
	}
	var said string
	for _, key := range keys {
		command := "check --data " + m.result
		if key != "" {
			command += " --encryption-key-file " + key
		}
		var code int
		if code, said = b.callIn(dir, command); code == 0 && strings.Contains(said, allRuns) {
			return
		}
		if before && code == 2 && says(said, m.unread) {
			return
		}
	}
	b.t.Errorf("%s: the store in %s: %s", m.name, m.result, said)
}

// says reports whether a text contains one of the words, which are separated by "|". "" matches nothing.
func says(text, words string) bool {
	for word := range strings.SplitSeq(words, "|") {
		if word != "" && strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// repeat calls the command again, which has to succeed or to say that it was done.
func (b *bench) repeat(dir string, m *maintenance) {
	b.t.Helper()
	if code, said := b.callIn(dir, m.command); code != 0 && !says(said, m.again) {
		b.t.Errorf("%s again: exit code %d: %s", m.name, code, said)
	}
	b.inOrder(dir, m, false)
}

// eachMaintenance runs a test for each command, on a disk of its own.
func eachMaintenance(t *testing.T, try func(b *bench, m *maintenance)) {
	t.Helper()
	for n := range maintenances {
		m := &maintenances[n]
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if b := newBench(t); b != nil {
				try(b, m)
			}
		})
	}
}

// TestKillMaintenance kills each maintenance command between two of its syncs, and cuts the power there. Afterwards the
// store is in order or a start names the command to repeat, what the command only reads is unchanged, and the
// repeated command succeeds. Each command has one point, and with PAWL_KILLS up to five.
func TestKillMaintenance(t *testing.T) {
	t.Parallel()
	points := int64(min(times("PAWL_KILLS", 1), 5))
	eachMaintenance(t, func(b *bench, m *maintenance) {
		dir, from := b.fresh(), b.disk.Syncs()
		b.succeeds(dir, m.command)
		syncs := b.disk.Syncs() - from
		b.inOrder(dir, m, false)
		tried := 0
		for n := range min(points, syncs) {
			for _, cut := range []bool{false, true} {
				if b.killAt(m, (2*n+1)*syncs/(2*min(points, syncs)), cut) {
					tried++
				}
				if b.t.Failed() {
					b.t.Fatalf("killed behind sync %d of %d, the power was cut: %v", (2*n+1)*syncs/(2*min(points, syncs)), syncs, cut)
				}
			}
		}
		testkit.ReportTried(b.t, tried, "kills of "+m.name)
	})
}

// killAt kills a command that waits behind the n-th sync. It returns false if the command ended before.
func (b *bench) killAt(m *maintenance, n int64, cut bool) bool {
	b.t.Helper()
	dir := b.fresh()
	before := b.sums(dir, m.keeps)
	waits := b.disk.HoldAfter(n)
	c := b.launchIn(dir, m.command)
	select {
	case <-waits:
		_ = c.Process.Kill()
		<-c.done
	case <-c.done:
	}
	b.disk.Resume()
	killed := !c.ProcessState.Exited()
	if cut {
		b.disk.PowerOff()
		if err := b.unmount(); err != nil {
			b.t.Fatal(err)
		}
		b.disk.Cut(b.random)
		if err := b.attach(); err != nil {
			b.t.Fatal(err)
		}
	}
	b.checkKept(dir, m, before)
	b.inOrder(dir, m, killed)
	if killed {
		b.repeat(dir, m)
		b.checkKept(dir, m, before)
	}
	return killed
}

// TestMaintenanceOnAFullDisk: on a disk that is nearly full, or full although it says that it is not, each command
// ends, names the disk and exits with 2. Nothing is lost, and with space the command succeeds.
func TestMaintenanceOnAFullDisk(t *testing.T) {
	t.Parallel()
	eachMaintenance(t, func(b *bench, m *maintenance) {
		for name, faults := range map[string]powerdisk.Faults{"nearly full": {Free: 1 << 20}, "full": {Full: true, Free: 1 << 40}} {
			dir := b.fresh()
			before := b.sums(dir, m.keeps)
			b.disk.Set(faults)
			code, said := b.callIn(dir, m.command)
			if named := code == 2 && says(said, "DISK_LOW|no space left on device"); !named && (code != 0 || name == "full" && !m.reads) {
				b.t.Errorf("%s on a disk that is %s: exit code %d: %s", m.name, name, code, said)
			}
			// Data that the kernel could not write is reported to the next caller of a sync, so the disk is mounted again.
			b.disk.Set(powerdisk.Faults{})
			if err := errors.Join(b.unmount(), b.attach()); err != nil {
				b.t.Fatal(err)
			}
			b.checkKept(dir, m, before)
			b.inOrder(dir, m, true)
			b.repeat(dir, m)
		}
	})
}

// TestMaintenanceWithAnotherKey: with the key of another store, or without one, each command is refused with code 2 and
// names the reason. The store is unchanged.
func TestMaintenanceWithAnotherKey(t *testing.T) {
	t.Parallel()
	b := newPlaces(t)
	dir := b.made
	for _, place := range []string{"sealed", "data"} {
		before := b.sums(dir, place)
		for _, command := range []string{
			"check --data PLACE", "check --repair --data PLACE", "stats --data PLACE", "runs verify --data PLACE", "compact PLACE", "migrate PLACE",
			"migrate PLACE --to new", "compact PLACE --to new", "backup kept --data PLACE", "salvage PLACE --data new", "rotate-key --data PLACE --new-key-file THIRD", "serve --listen 127.0.0.1:0 --data PLACE",
		} {
			command = strings.ReplaceAll(command, "PLACE", place)
			keys := map[string]string{"OTHER": "ENCRYPTION_KEY_WRONG", "": "ENCRYPTION_KEY_MISSING"}
			if place == "data" {
				keys = map[string]string{"OTHER": "ENCRYPTION_KEY_"}
			}
			if strings.HasPrefix(command, "rotate-key") {
				delete(keys, "")
			}
			for key, want := range keys {
				if key != "" {
					key = " --encryption-key-file " + key
				}
				code, said := b.callIn(dir, command+key)
				if !strings.Contains(said, want) || code != 2 && !strings.HasPrefix(command, "serve") {
					b.t.Errorf("%s%s: exit code %d, want 2 and %s: %s", command, key, code, want, said)
				}
				if !maps.Equal(before, b.sums(dir, place)) {
					b.t.Fatalf("%s%s changed %s", command, key, place)
				}
			}
		}
	}
}

// TestMaintenanceKeepsTheOwner kills each command that root runs on the store of another user when it has begun to write, and
// repeats it. Every file belongs to that user at all times, and the service starts as this user.
func TestMaintenanceKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	const service = 65534
	for _, one := range []struct{ command, begun, serves string }{
		{"compact data", "data.compact", "data"},
		{"check --repair --data data", "data/LOCK", "data"},
		{"backup kept --data data", "data/LOCK", "data"},
		{"salvage data --data new/store", "new/store/MIGRATING", "new/store"},
		{"migrate old", "old.format2", "old"},
		{"compact data --to new/store", "new/store", "new/store"},
	} {
		t.Run(strings.ReplaceAll(one.command, "/", "-"), func(t *testing.T) {
			t.Parallel()
			s := newSidecar(t)
			dir := filepath.Dir(s.dir)
			program := filepath.Join(dir, "pawl")
			raw, err := os.ReadFile(binary(t))
			if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(program, raw, 0o755), os.Mkdir(filepath.Join(dir, "new"), 0o700), os.Mkdir(filepath.Join(dir, "kept"), 0o700)); err != nil {
				t.Fatal(err)
			}
			copyTree(t, "../../internal/server/testdata/format-1", filepath.Join(dir, "old"))
			copyTree(t, "../../internal/server/testdata/format-2", filepath.Join(dir, "data"))
			if out, err := exec.Command("chown", "-R", "65534:65534", dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			owned := func() {
				t.Helper()
				err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := d.Info()
					if err == nil && info.Sys().(*syscall.Stat_t).Uid != service {
						t.Errorf("%s: %s belongs to %d", one.command, path, info.Sys().(*syscall.Stat_t).Uid)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			run := func(ctx context.Context, as uint32, args ...string) *exec.Cmd {
				cmd := exec.CommandContext(ctx, program, args...)
				cmd.Dir = dir
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as, Gid: as}}
				return cmd
			}
			words := strings.Fields(one.command)
			killed := run(deadline(t, patience), 0, words...)
			if err := killed.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				_ = killed.Wait()
				close(ended)
			}()
			eventually(t, "it writes, or has ended", func() bool {
				select {
				case <-ended:
					return true
				default:
				}
				_, err := os.Stat(filepath.Join(dir, one.begun))
				return err == nil
			})
			_ = killed.Process.Kill()
			<-ended
			owned()
			if out, err := run(deadline(t, patience), 0, words...).CombinedOutput(); err != nil && !strings.Contains(string(out), "is not empty") && !strings.Contains(string(out), "nothing to do") {
				t.Errorf("again: %v: %s", err, out)
			}
			owned()
			serve := run(deadline(t, patience), service, "check", "--data", one.serves)
			if out, err := serve.CombinedOutput(); err != nil || !strings.Contains(string(out), allRuns) {
				t.Errorf("as the service's user: %v: %s", err, out)
			}
			s.wrap = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
			s.dir, s.program = filepath.Join(dir, one.serves), program
			s.start()
			if code := s.stop(); code != 0 {
				t.Errorf("exit code %d: %s", code, s.stderr.String())
			}
			owned()
		})
	}
}
