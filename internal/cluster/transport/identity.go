package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Identity authenticates a node to others: a key that never leaves the process, and its
// certificate.
type Identity struct {
	// Key is the SHA-256 of the certificate, by which others know it.
	Key  [32]byte
	cert tls.Certificate
}

// NewIdentity makes one.
func NewIdentity() (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("peer: key: %w", err)
	}
	// Dates and names are not checked: a certificate is valid as long as the row that has it.
	like := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pawl node"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	if err != nil {
		return Identity{}, fmt.Errorf("peer: certificate: %w", err)
	}
	return Identity{Key: sha256.Sum256(der), cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}, nil
}

// TrustStore has the keys of the nodes of the cluster.
type TrustStore interface {
	// Known says whether a key is a living node's. It may read the rows for one that it does not
	// know.
	Known(key [32]byte) bool
}

// errUnknownPeer fails a handshake. It reveals no details.
var errUnknownPeer = errors.New("peer: no node of this cluster")

// Protocols on the port, as a handshake settles them.
const (
	protoGRPC = "h2"
	protoHTTP = "http/1.1"
)

// config makes the configuration for both sides: each shows its certificate, and known checks
// that of the other side, in every handshake. Sessions are never resumed.
func (id Identity) config(known func([32]byte) bool, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, NextProtos: protocols,
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, //nolint:gosec // the other's certificate is pinned, below; no authority vouches for it
		VerifyConnection: func(state tls.ConnectionState) error {
			if key, ok := keyOf(state); !ok || !known(key) {
				return errUnknownPeer
			}
			return nil
		},
	}
}

func keyOf(state tls.ConnectionState) ([32]byte, bool) {
	if len(state.PeerCertificates) == 0 {
		return [32]byte{}, false
	}
	return sha256.Sum256(state.PeerCertificates[0].Raw), true
}
