package secretfile

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadKey: hex and base64 of the three lengths, and nothing else; no error tells the
// content.
func TestReadKey(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for n := 0; n <= len(secret); n++ {
		want := n == 16 || n == 24 || n == 32
		for name, text := range map[string]string{
			"hex": hex.EncodeToString(secret[:n]), "base64": base64.StdEncoding.EncodeToString(secret[:n]) + "\n",
			"raw base64": base64.RawURLEncoding.EncodeToString(secret[:n]),
		} {
			key, err := ReadKey(write(text))
			if want && (err != nil || !bytes.Equal(key, secret[:n])) {
				t.Errorf("%s of %d bytes: %x, %v", name, n, key, err)
			}
			if fault, ok := errors.AsType[*KeyError](err); !want && (!ok || n > 3 && strings.Contains(fault.Error(), strings.TrimSpace(text))) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
	if _, err := ReadKey(write("not a key at all!")); err == nil {
		t.Error("words were taken for a key")
	}
	open := write(hex.EncodeToString(secret[:32]))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(open); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a key that everybody may read: %v", err)
	}
}
