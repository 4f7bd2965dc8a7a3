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

// Identity is the proof of a node's identity. It consists of a private key that never leaves the
// process, and a certificate.
type Identity struct {
	// Key is the SHA-256 of the certificate. Other nodes identify the node by it.
	Key  [32]byte
	cert tls.Certificate
}

// NewIdentity creates a new private key and a certificate that is signed with it.
func NewIdentity() (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("peer: key: %w", err)
	}
	// Other nodes do not check the dates and the name of the certificate. They accept it while the
	// node's row in the database contains its digest.
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

// TrustStore contains the keys of the nodes of the cluster.
type TrustStore interface {
	// KnowsKey reports whether a key belongs to a live node. If the key is unknown, it may read the
	// database.
	KnowsKey(key [32]byte) bool
}

// errUnknownPeer is the error of a handshake with an unknown node. It reveals no details.
var errUnknownPeer = errors.New("peer: no node of this cluster")

// These are the application protocols on the port for other nodes. The TLS handshake negotiates one of
// them (ALPN).
const (
	protoGRPC = "h2"
	protoHTTP = "http/1.1"
)

// config returns the TLS configuration for both sides of a connection. In every handshake, each side
// sends its certificate, and known checks the certificate of the other side. Sessions are never
// resumed.
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
