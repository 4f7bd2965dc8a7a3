package auth

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoopbackRule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address string
		open    bool
		want    string
	}{
		{address: "127.0.0.1:0"},
		{address: "localhost:0"},
		{address: "[::1]:0"},
		{address: ":0"},
		{address: "0.0.0.0:0", want: "is not a loopback address"},
		{address: "[::]:0", want: "is not a loopback address"},
		{address: "0.0.0.0:0", open: true},
		{address: "0.0.0.0", want: "want HOST:PORT"},
		{address: "", want: "want HOST:PORT"},
		{address: "127.0.0.1:99999", want: "invalid port"},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			t.Parallel()
			ln, err := ListenTCP("listen", tt.address, tt.open)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "listen") {
					t.Fatalf("error %v, want %q in it", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			if !tt.open && !loopbackAddr(ln.Addr()) {
				t.Fatalf("bound to %s", ln.Addr())
			}
		})
	}
}

func TestListenUnix(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := ListenUnix(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("a served socket was taken: %v", err)
	}
	// A crash leaves the file behind.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	ln, err = ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Fatalf("a file was taken for a socket: %v", err)
	}
}
