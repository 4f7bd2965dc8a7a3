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

// MaxCertificateName limits one name of a certificate, in bytes. The limit is needed because the name
// becomes part of keys of the store.
const MaxCertificateName = 256

// Identity is the holder of a verified client certificate.
type Identity struct {
	// Roots are the digests of the authorities that have signed the certificate.
	Roots [][sha256.Size]byte
	// Names are the subject's common name followed by the subject alternative names, in the form of
	// certificateNames.
	Names []string
}

// IdentityOf returns the identity of a TLS connection. It returns nil if there is no verified
// certificate.
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

// CertificateNames returns the names of a certificate to which the operator can give scopes. Each name
// begins with its kind, so that a name of one kind cannot be taken for a name of another kind. It
// leaves out names that are too long or not printable, and names that look like the names of other
// kinds of principals.
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

// CertificateSet identifies the holders of certificates. It is nil if no certificates are requested.
type CertificateSet struct {
	// Roots are the digests of the authorities that are currently trusted.
	Roots map[[sha256.Size]byte]bool
	// Scopes maps a name to its scopes. The scopes of [EveryCertificate] belong to every holder.
	Scopes map[string]runtime.Scopes
	// Namespaces maps a name to the namespaces in which its scopes hold. A name that is missing has its
	// scopes in all namespaces.
	Namespaces map[string][]string
}

// Find returns the holder of a certificate. The name of the holder is the first name of the certificate
// that has scopes. If no name has scopes, it is the first name. A holder without a line in the file has
// the rights of the line for every certificate. If there is no such line, the holder has no rights.
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

// Of returns the principal with a name. The principal has the scopes of its own line. The scopes of the
// line for every certificate are added only if both lines are for the same namespaces, so that no scope
// applies in a namespace for which it was not given.
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

// These are the metadata keys with which the gateway passes the certificate of its client, on the
// in-process connection. On any other connection they are ignored.
const (
	rootKey = "pawl-root-bin"
	nameKey = "pawl-name-bin"
)

// Metadata returns the metadata with which the gateway passes the identity to the server.
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

// forwarded returns the identity that the gateway passed. It returns nil if the client of the gateway
// sent no certificate.
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

// shown returns the identity that the caller's connection proves. owner reports whether the connection
// is the Unix socket, which only the owner of the process can open.
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
