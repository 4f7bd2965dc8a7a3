package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// TestFilesFromPipes: a file that is a pipe is read once, because its content can be read only once.
func TestFilesFromPipes(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.TokensFile = filepath.Join(t.TempDir(), "tokens")
	if err := syscall.Mkfifo(c.TokensFile, 0o600); err != nil {
		t.Fatal(err)
	}
	writing := make(chan error, 1)
	go func() {
		file, err := os.OpenFile(c.TokensFile, os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString("app runs:read " + auth.Digested("secretsecretsecret") + "\n")
			err = errors.Join(err, file.Close())
		}
		writing <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(ctx, c, in, io.Discard)
		in.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	var ready Ready
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := errors.Join(<-ended, <-writing); err != nil {
		t.Error(err)
	}
}

// TestWarnings: a certificate that has expired and a directory without a store are warnings, and no faults.
func TestWarnings(t *testing.T) {
	t.Parallel()
	_, cert, key := authority(t)
	dir := t.TempDir()
	c := config.Default()
	c.Data, c.TLSCert, c.TLSKey = filepath.Join(dir, "absent"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, content := range map[string][]byte{c.TLSCert: cert, c.TLSKey: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckFiles(c); err != nil {
		t.Fatal(err)
	}
	fields := func(now time.Time) (names []string) {
		for _, warning := range Warnings(c, now) {
			names = append(names, warning.Field)
		}
		return names
	}
	if got := fields(time.Now().Add(2 * time.Hour)); len(got) != 2 || got[0] != "tls_cert" || got[1] != "data" {
		t.Errorf("an expired certificate and no store: %v", got)
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Data, "MANIFEST"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := fields(time.Now()); got != nil {
		t.Errorf("a valid certificate and a store: %v", got)
	}
}
