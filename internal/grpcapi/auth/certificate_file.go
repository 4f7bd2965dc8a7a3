package auth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// EveryCertificate is the name in the line with the rights that every holder of a certificate has.
const EveryCertificate = "*"

// certificateKinds are the kinds with which a name may begin.
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
// All faults are reported at once, by line.
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

// NewCertificateSet checks the list. The error contains all faults.
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
