package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// ListenTCP binds an address HOST:PORT. open means that callers are authenticated, or that the operator
// permits insecure callers. If open is false, an empty HOST means loopback, and any address other than
// loopback is refused.
func ListenTCP(field, address string, open bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s %q: want HOST:PORT: %w", field, address, err)
	}
	if host == "" && !open {
		host = "127.0.0.1"
	}
	if !open && !loopbackHost(host) {
		return nil, fmt.Errorf("%s %q is not a loopback address: where callers show neither tokens nor certificates only loopback is served; "+
			"configure tokens_file or tls_client_ca, or accept the risk with insecure_bind", field, address)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if !open && !loopbackAddr(ln.Addr()) {
		return nil, errors.Join(fmt.Errorf("%s %q resolved to %s, which is not loopback", field, address, ln.Addr()), ln.Close())
	}
	return ln, nil
}

// loopbackHost reports whether every address of a host name is a loopback address.
func loopbackHost(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	ips, err := net.DefaultResolver.LookupIPAddr(context.Background(), host)
	if err != nil || len(ips) == 0 {
		return false
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return false
		}
	}
	return true
}

func loopbackAddr(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ListenUnix binds a socket that only its owner may use. It replaces the socket of a crashed process,
// but not a socket that still answers.
func ListenUnix(path string) (net.Listener, error) {
	if err := clearStaleSocket(path); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), ln.Close())
	}
	return ln, nil
}

func clearStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is no socket", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	if conn, err := dialer.DialContext(context.Background(), "unix", path); err == nil {
		return errors.Join(fmt.Errorf("%s is served by another process", path), conn.Close())
	}
	return os.Remove(path)
}
