package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// MaxCertificateName limits one name of a certificate, in bytes, because the name becomes part of
// keys of the store.
const MaxCertificateName = 256

// Identity is the holder of a verified client certificate.
type Identity struct {
	// Roots are the digests of the authorities that have signed the certificate.
	Roots [][sha256.Size]byte
	// Names are the subject's common name and then the subject alternative names,
	// as certificateNames spells them.
	Names []string
}

// IdentityOf returns the identity of a TLS connection, or nil without a verified certificate.
func IdentityOf(state *tls.ConnectionState) *Identity {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	id := &Identity{Names: CertificateNames(state.VerifiedChains[0][0])}
	for _, chain := range state.VerifiedChains {
		id.Roots = append(id.Roots, sha256.Sum256(chain[len(chain)-1].Raw))
	}
	return id
}

// CertificateNames returns the names by which the holder of a certificate may get scopes. Each begins
// with its kind, so that a name of one kind cannot pass for one of another kind. It leaves out names
// that are too long, not printable, or like the names that the sidecar gives other principals.
func CertificateNames(cert *x509.Certificate) []string {
	var names []string
	add := func(kind, name string) {
		if nameable(name) {
			names = append(names, kind+":"+name)
		}
	}
	add("cert", cert.Subject.CommonName)
	for _, uri := range cert.URIs {
		add("uri", uri.String())
	}
	for _, name := range cert.DNSNames {
		add("dns", name)
	}
	for _, address := range cert.EmailAddresses {
		add("email", address)
	}
	return names
}

// nameable reports whether a name may be the name of a principal.
func nameable(name string) bool {
	return policy.IsPrincipalName(name) && len(name) <= MaxCertificateName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CertificateSet identifies the holders of certificates. nil means that none are requested.
type CertificateSet struct {
	// Roots are the digests of the authorities that are trusted now.
	Roots map[[sha256.Size]byte]bool
	// Scopes are the scopes by name. Those of [EveryCertificate] belong to every holder.
	Scopes map[string]runtime.Scopes
	// Namespaces are the namespaces of a name, if its scopes hold only in some.
	Namespaces map[string][]string
}

// Find returns the holder of a certificate. Its name is the first one that was given scopes, otherwise
// the first one. A holder without a line in the file has the rights of the line for every
// certificate. Without that line it has none.
func (s *CertificateSet) Find(id *Identity) (*Caller, error) {
	if !slices.ContainsFunc(id.Roots, func(root [sha256.Size]byte) bool { return s.Roots[root] }) {
		return nil, unauthenticated("CERTIFICATE_REVOKED", "the authority of the client certificate is no longer trusted; connect again with another")
	}
	if len(id.Names) == 0 {
		return nil, unauthenticated("CERTIFICATE_UNNAMED", fmt.Sprintf(
			"the client certificate has neither a common name nor a URI, DNS or email name of at most %d printable bytes without the character >", MaxCertificateName))
	}
	name := id.Names[0]
	for _, candidate := range id.Names {
		if _, listed := s.Scopes[candidate]; listed {
			name = candidate
			break
		}
	}
	return &Caller{Principal: s.Of(name), certificate: id}, nil
}

// Of returns the principal of a name. It has the scopes of its own line. The scopes of the line for
// every certificate are added only if both hold in the same namespaces, so that no scope reaches a
// namespace that it was not given for.
func (s *CertificateSet) Of(name string) runtime.Principal {
	own, listed := s.Scopes[name]
	p := runtime.Principal{Subject: name, Scopes: own, Namespaces: s.Namespaces[name], Proof: policy.ByCertificate}
	if !listed {
		p.Namespaces = s.Namespaces[EveryCertificate]
	}
	if slices.Equal(p.Namespaces, s.Namespaces[EveryCertificate]) {
		p.Scopes |= s.Scopes[EveryCertificate]
	}
	return p
}

// Metadata keys in which the gateway passes the certificate of its client, on the in-process
// connection. On any other connection they are ignored.
const (
	rootKey = "pawl-root-bin"
	nameKey = "pawl-name-bin"
)

// Metadata returns the metadata in which the gateway passes the identity to the server.
func (id *Identity) Metadata() metadata.MD {
	if id == nil {
		return nil
	}
	md := metadata.MD{nameKey: id.Names}
	for _, root := range id.Roots {
		md.Append(rootKey, string(root[:]))
	}
	return md
}

// forwarded returns the identity that the gateway passed, or nil if its client showed no certificate.
func forwarded(ctx context.Context) *Identity {
	md, _ := metadata.FromIncomingContext(ctx)
	roots := md.Get(rootKey)
	if len(roots) == 0 {
		return nil
	}
	id := &Identity{Names: md.Get(nameKey)}
	for _, root := range roots {
		if len(root) == sha256.Size {
			id.Roots = append(id.Roots, [sha256.Size]byte([]byte(root)))
		}
	}
	return id
}

// shown returns the identity that the caller's connection proves. owner means that the connection is
// the Unix socket, which only the owner of the process can open.
func shown(ctx context.Context) (id *Identity, owner bool) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	switch info := from.AuthInfo.(type) {
	case credentials.TLSInfo:
		return IdentityOf(&info.State), false
	case connInfo:
		if info.kind == connInProcess {
			return forwarded(ctx), false
		}
		return nil, info.kind == connUnix
	}
	return nil, false
}
