package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/secretfile"
)

// KeyFiles are the PEM files of a server. Without TLS all are "".
type KeyFiles struct{ Cert, Key, ClientCA string }

// Keys are the contents of [KeyFiles] when they were read.
type Keys struct {
	cert tls.Certificate
	// ClientCAs contains the authorities that sign the certificates of callers. Roots contains the
	// digests of these authorities. Both are nil if no certificates are requested.
	ClientCAs *x509.CertPool
	Roots     map[[sha256.Size]byte]bool
}

// Read reads the files. It returns nil if no certificate is configured.
func (f KeyFiles) Read() (*Keys, error) {
	if f.Cert == "" && f.Key == "" {
		if f.ClientCA != "" {
			return nil, errors.New("tls_client_ca needs tls_cert and tls_key")
		}
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("tls_cert and tls_key go together")
	}
	k := &Keys{}
	var err error
	if k.cert, err = secretfile.ReadKeyPair(f.Cert, f.Key); err != nil {
		return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
	}
	if f.ClientCA == "" {
		return k, nil
	}
	if err := k.authorities(f.ClientCA); err != nil {
		return nil, fmt.Errorf("tls_client_ca: %w", err)
	}
	return k, nil
}

func (k *Keys) authorities(path string) error {
	rest, err := secretfile.ReadTrusted(path)
	if err != nil {
		return err
	}
	k.ClientCAs, k.Roots = x509.NewCertPool(), map[[sha256.Size]byte]bool{}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		k.ClientCAs.AddCert(cert)
		k.Roots[sha256.Sum256(cert.Raw)] = true
	}
	if len(k.Roots) == 0 {
		return fmt.Errorf("%s holds no PEM certificate", path)
	}
	return nil
}

// config returns the TLS configuration for a handshake.
func (k *Keys) config(protocols []string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{k.cert}, NextProtos: protocols}
	if k.ClientCAs != nil {
		conf.ClientCAs, conf.ClientAuth = k.ClientCAs, tls.RequireAndVerifyClientCert
	}
	return conf
}

// Keyring holds the TLS keys of a server. The keys may be replaced while the server runs. New
// connections then use the new keys. It is nil without TLS.
type Keyring struct{ Current atomic.Pointer[Keys] }

// NewKeyring returns a Keyring with the keys k. If k is nil, it returns nil.
func NewKeyring(k *Keys) *Keyring {
	if k == nil {
		return nil
	}
	ring := &Keyring{}
	ring.Current.Store(k)
	return ring
}

// Config returns a TLS configuration that uses the current keys for each handshake. Without TLS it
// returns nil.
func (r *Keyring) Config(protocols ...string) *tls.Config {
	if r == nil {
		return nil
	}
	conf := r.Current.Load().config(protocols)
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return r.Current.Load().config(protocols), nil
	}
	return conf
}
