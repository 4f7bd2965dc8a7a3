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

// MaxCertificateName bounds one name of a certificate, bytes: it becomes part of
// keys of the store.
const MaxCertificateName = 256

// Identity is what a verified client certificate says of its holder.
type Identity struct {
	// Roots are the digests of the authorities that vouch for it.
	Roots [][sha256.Size]byte
	// Names are the subject's common name and then the subject alternative names,
	// as certificateNames spells them.
	Names []string
}

// IdentityOf reads the state of a connection; nil without a verified certificate.
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

// CertificateNames are the names by which a certificate may be given scopes, the
// kind in front, so that no name of one kind passes for one of another. Names that
// are too long, that a log could not show, or that pass for an answer in another's name
// are none.
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

// nameable: a name may be a principal's.
func nameable(name string) bool {
	return policy.IsPrincipalName(name) && len(name) <= MaxCertificateName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CertificateSet identifies the holders of certificates. nil: certificates are not requested.
type CertificateSet struct {
	// Roots are the digests of the authorities that are trusted now.
	Roots map[[sha256.Size]byte]bool
	// Scopes are by name; everyCertificate is every holder's.
	Scopes map[string]runtime.Scopes
	// Namespaces are by name, where the scopes hold in some alone.
	Namespaces map[string][]string
}

// Find returns the holder: by the first of its names that was given scopes, otherwise by its
// first name. A holder without a line of its own has the rights of the line for every
// certificate; without that line it has none.
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

// Of is the principal of a name. What every certificate may do is added to what its own
// line says where both hold in the same namespaces; else its own line stands alone, so
// that no scope reaches a namespace that it was not given for.
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

// The gateway is a client on the in-process connection. There it passes the certificate of its
// own client in these keys; on any other connection they are ignored.
const (
	rootKey = "pawl-root-bin"
	nameKey = "pawl-name-bin"
)

// Metadata is the identity on its way from the gateway to the server.
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

// forwarded reads the identity that the gateway passed; nil: its client showed no certificate.
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

// shown returns the identity that the caller's connection proves. owner: the connection is the
// Unix socket, which only the owner of the process can open.
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
