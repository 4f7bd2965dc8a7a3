package e2e

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// keyFile writes an encryption key of that many bytes.
func keyFile(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(bytes.Repeat([]byte{0xa5}, n))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readable are the files of a data directory that hold a text.
func readable(t *testing.T, dir, text string) (in []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			in = append(in, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestKillEncrypted is TestKill on an encrypted store, a quarter as often. No stored value can be
// read in any file. The store cannot be opened without the key or with another key. Under a new key
// everything is there.
func TestKillEncrypted(t *testing.T) {
	t.Parallel()
	kills := 2
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = max(n/4, 1)
	}
	key, other := keyFile(t, 32), keyFile(t, 16)
	s := killed(t, kills, "--encryption-key-file", key)
	for _, text := range []string{"ratchets", "crash", "run-1"} {
		if in := readable(t, s.dir, text); len(in) > 0 {
			t.Errorf("%q is readable in %v", text, in)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(binary(t), append(args, "--data", s.dir)...).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%v: %v, want %s\n%s", args, err, want, out)
		}
	}
	refused("ENCRYPTION_KEY_MISSING", "serve")
	refused("ENCRYPTION_KEY_MISSING", "check")
	refused("ENCRYPTION_KEY_WRONG", "serve", "--encryption-key-file", other)
	out, err := exec.Command(binary(t), "rotate-key", "--data", s.dir, "--encryption-key-file", key, "--new-key-file", other).CombinedOutput()
	if err != nil {
		t.Fatalf("rotate-key: %v\n%s", err, out)
	}
	refused("ENCRYPTION_KEY_WRONG", "serve", "--encryption-key-file", key)
	s.check("--encryption-key-file", other)
}
