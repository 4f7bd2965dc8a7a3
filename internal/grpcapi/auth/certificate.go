package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// MaxCertificateName limits one name of a certificate, in bytes. The limit is needed because the name
// becomes part of keys of the store.
const MaxCertificateName = 256

// Identity is the holder of a verified client certificate.
type Identity struct {
	// Roots are the digests of the authorities that have signed the certificate.
	Roots [][sha256.Size]byte
	// Names are the subject's common name followed by the subject alternative names, in the form of
	// [CertificateNames].
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
// the rights of the line for every certificate. If there is none, the holder has no rights.
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
	return &Caller{Principal: s.Principal(name), certificate: id}, nil
}

// Principal returns the principal with a name. It has the scopes of the name's own line in the file. The scopes of the
// line for every certificate are added only if both lines are for the same namespaces in the same order. Otherwise a
// scope would apply in a namespace for which it was not given.
func (s *CertificateSet) Principal(name string) runtime.Principal {
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

// EveryCertificate is the name in the line with the rights that every holder of a certificate has.
const EveryCertificate = "*"

// certificateKinds are the prefixes with which the name of a certificate's holder may begin.
var certificateKinds = []string{"cert:", "uri:", "dns:", "email:"}

// Certificate contains the rights of the holder of a client certificate.
type Certificate struct {
	// Name is "cert:" followed by the subject's common name, or "uri:", "dns:" or "email:" followed by
	// a subject alternative name. "*" means every certificate of the authority.
	Name string
	// Scopes are the holder's rights, at least one.
	Scopes runtime.Scopes
	// Namespaces are the namespaces in which the scopes hold. nil means all.
	Namespaces []string
}

// ReadCertificates reads a file of certificates' rights. Each line that is neither
// empty nor a comment (#) has two fields parted by spaces or tabs; the name, which
// is the first, may have spaces in it:
//
//	NAME  SCOPE[,SCOPE...][@NAMESPACE[,NAMESPACE...]]
//	cert:ci-deploy                      packs:write
//	cert:red-worker                     work@red
//	uri:spiffe://example.org/approvals  runs:read,events:external
//	*                                   runs:read
//
// All faults of the form are reported at once, by line. [NewCertificateSet] checks the names.
func ReadCertificates(path string) ([]Certificate, error) {
	raw, err := secretfile.ReadTrusted(path)
	if err != nil {
		return nil, fmt.Errorf("certificates file: %w", err)
	}
	list, err := parseCertificates(string(raw))
	if err != nil {
		return nil, fmt.Errorf("certificates file %s: %w", path, err)
	}
	return list, nil
}

// parseCertificates reads the lines of a file of certificates. Its error names every faulty line. A file without a
// certificate is an error.
func parseCertificates(text string) ([]Certificate, error) {
	var list []Certificate
	var faults []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := parseCertificate(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		list = append(list, c)
	}
	if len(list) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("no certificate in it; want lines of NAME SCOPES"))
	}
	return list, errors.Join(faults...)
}

func parseCertificate(line string) (Certificate, error) {
	cut := strings.LastIndexAny(line, " \t")
	if cut < 0 {
		return Certificate{}, errors.New("1 field; want NAME SCOPE[,SCOPE...]")
	}
	scopes, namespaces, err := parseGrant(line[cut+1:])
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{Name: strings.TrimSpace(line[:cut]), Scopes: scopes, Namespaces: namespaces}, nil
}

// validate reports the first fault of a line.
func (c Certificate) validate() error {
	if c.Scopes == 0 {
		return fmt.Errorf("certificate %q has no scope; known scopes are %s", c.Name, knownScopes())
	}
	if c.Name == EveryCertificate {
		return nil
	}
	for _, kind := range certificateKinds {
		if rest, ok := strings.CutPrefix(c.Name, kind); ok && nameable(rest) {
			return nil
		}
	}
	return fmt.Errorf("certificate %q: want %s followed by a name of at most %d printable bytes without the character >, or %s for all",
		apierror.Clip(c.Name, apierror.MaxFieldBytes), strings.Join(certificateKinds, ", "), MaxCertificateName, EveryCertificate)
}

// NewCertificateSet checks the list. The error contains all faults. If no client certificates are requested, it returns
// nil.
func NewCertificateSet(keys *Keys, list []Certificate) (*CertificateSet, error) {
	if keys == nil || keys.Roots == nil {
		if len(list) > 0 {
			return nil, errors.New("certificates_file needs tls_client_ca")
		}
		return nil, nil
	}
	set := &CertificateSet{Roots: keys.Roots, Scopes: map[string]runtime.Scopes{}, Namespaces: map[string][]string{}}
	var faults []error
	for _, c := range list {
		if err := c.validate(); err != nil {
			faults = append(faults, err)
			continue
		}
		if _, twice := set.Scopes[c.Name]; twice {
			faults = append(faults, fmt.Errorf("certificate %q is named twice", c.Name))
		}
		set.Scopes[c.Name] |= c.Scopes
		set.Namespaces[c.Name] = c.Namespaces
	}
	return set, errors.Join(faults...)
}
