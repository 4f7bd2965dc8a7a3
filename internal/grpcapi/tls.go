package grpcapi

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

// keyFiles are the PEM files of a server; all are "" without TLS.
type keyFiles struct{ cert, key, clientCA string }

// keys is what the files held when they were read.
type keys struct {
	cert tls.Certificate
	// clientCAs and roots are the authorities of callers' certificates, the latter by
	// digest; nil = none are asked for.
	clientCAs *x509.CertPool
	roots     map[[sha256.Size]byte]bool
}

// read reads the files; nil without a certificate.
func (f keyFiles) read() (*keys, error) {
	if f.cert == "" && f.key == "" {
		if f.clientCA != "" {
			return nil, errors.New("tls_client_ca needs tls_cert and tls_key")
		}
		return nil, nil
	}
	if f.cert == "" || f.key == "" {
		return nil, errors.New("tls_cert and tls_key go together")
	}
	k := &keys{}
	var err error
	if k.cert, err = secretfile.ReadKeyPair(f.cert, f.key); err != nil {
		return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
	}
	if f.clientCA == "" {
		return k, nil
	}
	if err := k.authorities(f.clientCA); err != nil {
		return nil, fmt.Errorf("tls_client_ca: %w", err)
	}
	return k, nil
}

func (k *keys) authorities(path string) error {
	rest, err := secretfile.ReadTrusted(path)
	if err != nil {
		return err
	}
	k.clientCAs, k.roots = x509.NewCertPool(), map[[sha256.Size]byte]bool{}
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
		k.clientCAs.AddCert(cert)
		k.roots[sha256.Sum256(cert.Raw)] = true
	}
	if len(k.roots) == 0 {
		return fmt.Errorf("%s holds no PEM certificate", path)
	}
	return nil
}

// config is what a handshake goes by.
func (k *keys) config(protocols []string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{k.cert}, NextProtos: protocols}
	if k.clientCAs != nil {
		conf.ClientCAs, conf.ClientAuth = k.clientCAs, tls.RequireAndVerifyClientCert
	}
	return conf
}

// keyring has the keys of a server, which may be exchanged while it serves: new
// connections go by the new ones. nil without TLS.
type keyring struct{ current atomic.Pointer[keys] }

func newKeyring(k *keys) *keyring {
	if k == nil {
		return nil
	}
	ring := &keyring{}
	ring.current.Store(k)
	return ring
}

// config asks the ring at each handshake; nil without TLS.
func (r *keyring) config(protocols ...string) *tls.Config {
	if r == nil {
		return nil
	}
	conf := r.current.Load().config(protocols)
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return r.current.Load().config(protocols), nil
	}
	return conf
}
