package grpcapi

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

	"github.com/pawl-dev/pawl/internal/runtime"
)

// maxCertificateName bounds one name of a certificate, bytes: it becomes part of
// keys of the store.
const maxCertificateName = 256

// identity is what a verified client certificate says of its holder.
type identity struct {
	// roots are the digests of the authorities that vouch for it.
	roots [][sha256.Size]byte
	// names are the subject's common name and then the subject alternative names,
	// as certificateNames spells them.
	names []string
}

// identityOf reads the state of a connection; nil without a verified certificate.
func identityOf(state *tls.ConnectionState) *identity {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	id := &identity{names: certificateNames(state.VerifiedChains[0][0])}
	for _, chain := range state.VerifiedChains {
		id.roots = append(id.roots, sha256.Sum256(chain[len(chain)-1].Raw))
	}
	return id
}

// certificateNames are the names by which a certificate may be given scopes, the
// kind in front, so that no name of one kind passes for one of another. Names that
// are too long, that a log could not show, or that pass for an answer in another's name
// are none.
func certificateNames(cert *x509.Certificate) []string {
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
	return name != "" && len(name) <= maxCertificateName && utf8.ValidString(name) && !strings.Contains(name, runtime.BehalfMark) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// certificateSet answers who the holder of a certificate is. nil: none are asked for.
type certificateSet struct {
	// roots are the digests of the authorities that are trusted now.
	roots map[[sha256.Size]byte]bool
	// scopes are by name; everyCertificate is every holder's.
	scopes map[string]runtime.Scopes
}

// find names the holder: by the first of its names that was given scopes, else by
// the first that it has. Whom no line names has what every certificate has, which
// without such a line is nothing.
func (s *certificateSet) find(id *identity) (*principal, error) {
	if !slices.ContainsFunc(id.roots, func(root [sha256.Size]byte) bool { return s.roots[root] }) {
		return nil, unauthenticated("CERTIFICATE_REVOKED", "the authority of the client certificate is no longer trusted; connect again with another")
	}
	if len(id.names) == 0 {
		return nil, unauthenticated("CERTIFICATE_UNNAMED", fmt.Sprintf(
			"the client certificate has neither a common name nor a URI, DNS or email name of at most %d printable bytes without %s", maxCertificateName, runtime.BehalfMark))
	}
	name := id.names[0]
	for _, candidate := range id.names {
		if _, listed := s.scopes[candidate]; listed {
			name = candidate
			break
		}
	}
	return &principal{Principal: runtime.Principal{Name: name, Scopes: s.of(name)}, certificate: id}, nil
}

// of are the scopes of a name.
func (s *certificateSet) of(name string) runtime.Scopes {
	return s.scopes[name] | s.scopes[everyCertificate]
}

// The gateway is a client on the in-process connection. It tells there who showed a
// certificate to it, in these keys; on any other connection they mean nothing.
const (
	rootKey = "pawl-root-bin"
	nameKey = "pawl-name-bin"
)

// metadata is the identity on its way from the gateway to the server.
func (id *identity) metadata() metadata.MD {
	if id == nil {
		return nil
	}
	md := metadata.MD{nameKey: id.names}
	for _, root := range id.roots {
		md.Append(rootKey, string(root[:]))
	}
	return md
}

// forwarded reads what the gateway told; nil: its caller showed no certificate.
func forwarded(ctx context.Context) *identity {
	md, _ := metadata.FromIncomingContext(ctx)
	roots := md.Get(rootKey)
	if len(roots) == 0 {
		return nil
	}
	id := &identity{names: md.Get(nameKey)}
	for _, root := range roots {
		if len(root) == sha256.Size {
			id.roots = append(id.roots, [sha256.Size]byte([]byte(root)))
		}
	}
	return id
}

// shown is the identity that the caller's connection proves. owner: the connection
// is the Unix socket, which nobody but the owner of the process can open.
func shown(ctx context.Context) (id *identity, owner bool) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	switch info := from.AuthInfo.(type) {
	case credentials.TLSInfo:
		return identityOf(&info.State), false
	case doorInfo:
		if info.kind == doorLocal {
			return forwarded(ctx), false
		}
		return nil, info.kind == doorSocket
	}
	return nil, false
}
