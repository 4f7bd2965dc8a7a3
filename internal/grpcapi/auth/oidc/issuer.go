package oidc

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// Issuer is a trusted issuer of tokens, with the rules for its claims.
type Issuer struct {
	// Issuer is the exact value of the claim iss in the tokens. Required.
	Issuer string `yaml:"issuer"`
	// JWKS is the URL (https, or http on loopback) or the file of the issuer's keys. Default: the URL
	// in ISSUER/.well-known/openid-configuration. A file is read again when this configuration is read
	// again.
	JWKS string `yaml:"jwks"`
	// CA is a PEM file of the authorities that sign the issuer's TLS certificate. Default: the
	// authorities of the system.
	CA string `yaml:"ca"`
	// Audience are the accepted values of the claim aud. A token must have one of them. Required.
	Audience []string `yaml:"audience"`
	// Algorithms are the accepted signature algorithms. Default RS256, PS256, ES256, ES384, EdDSA.
	// Algorithms with a shared secret are never accepted.
	Algorithms []string `yaml:"algorithms"`
	// Leeway is the accepted difference between the clocks, at most 5m. Default 30s.
	Leeway time.Duration `yaml:"leeway"`
	// Prefix is the beginning of the names of the issuer's principals. It consists of a-z, 0-9 and -,
	// and ends with a colon. Two issuers must not have the same prefix. Default "oidc:".
	Prefix string `yaml:"prefix"`
	// Principal is the claim that contains the rest of the principal's name. Default "sub".
	Principal string `yaml:"principal"`
	// Scopes maps claims to scopes. Required.
	Scopes Grants `yaml:"scopes"`
	// Namespaces are the namespaces in which the scopes hold. Required.
	Namespaces Spaces `yaml:"namespaces"`
	// Deny are names of principals. Their tokens are refused, even if a rule accepts their claims.
	Deny []string `yaml:"deny"`
}

// Grants maps the values of a claim to scopes.
type Grants struct {
	// Claim is the name of a claim. For a nested claim it consists of the names of the claims, joined
	// with dots. The value of the claim is a list of texts, or one text with spaces between the values.
	Claim string `yaml:"claim"`
	// Map maps each value to scopes. A value that is not in Map gives no scope.
	Map map[string][]string `yaml:"map"`
}

// Spaces are the namespaces of an issuer's principals. Exactly one of All, Fixed and Claim is set.
type Spaces struct {
	// All means every namespace.
	All bool `yaml:"all"`
	// Fixed are the namespaces of every principal.
	Fixed []string `yaml:"fixed"`
	// Claim is a claim that determines the namespaces. Its values are the names of the namespaces or,
	// if Map is set, keys of Map.
	Claim string              `yaml:"claim"`
	Map   map[string][]string `yaml:"map"`
}

// maxLeeway is the largest accepted leeway.
const (
	maxLeeway     = 5 * time.Minute
	defaultLeeway = 30 * time.Second
)

// algorithms are the signature algorithms that use a public key.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

var defaultAlgorithms = []string{"RS256", "PS256", "ES256", "ES384", "EdDSA"}

var (
	prefixForm    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}:$`)
	namespaceForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
)

// takenPrefixes are prefixes that the names of other kinds of principals have.
var takenPrefixes = []string{"cert:", "uri:", "dns:", "email:", "pawl:", "link:", "schedule:"}

// Read reads a file of issuers. The file is YAML of the form `issuers: [...]`. Read does not check the values; [NewSet]
// does.
func Read(path string) ([]Issuer, error) {
	raw, err := secretfile.ReadTrusted(path)
	if err != nil {
		return nil, fmt.Errorf("oidc file: %w", err)
	}
	var file struct {
		Issuers []Issuer `yaml:"issuers"`
	}
	if err := yaml.UnmarshalWithOptions(raw, &file, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("oidc file %s: %w", path, err)
	}
	if len(file.Issuers) == 0 {
		return nil, fmt.Errorf("oidc file %s: issuers: there is none", path)
	}
	return file.Issuers, nil
}

// withDefaults sets the fields that are not set.
func (i Issuer) withDefaults() Issuer {
	if len(i.Algorithms) == 0 {
		i.Algorithms = defaultAlgorithms
	}
	if i.Leeway == 0 {
		i.Leeway = defaultLeeway
	}
	if i.Prefix == "" {
		i.Prefix = "oidc:"
	}
	if i.Principal == "" {
		i.Principal = "sub"
	}
	return i
}

// validate reports all faults at once.
func (i Issuer) validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("issuer %q: "+format, append([]any{i.Issuer}, args...)...))
		}
	}
	check(i.Issuer != "", "issuer is required")
	check(i.JWKS != "" || safeURL(i.Issuer), "without jwks it must be an https URL, or http on loopback")
	check(!strings.Contains(i.JWKS, "://") || safeURL(i.JWKS), "jwks %q: want https, http on loopback, or a file", i.JWKS)
	check(len(i.Audience) > 0 && !slices.Contains(i.Audience, ""), "audience is required: for whom its tokens are")
	check(i.Leeway >= 0 && i.Leeway <= maxLeeway, "leeway %s: want 0 to %s", i.Leeway, maxLeeway)
	check(prefixForm.MatchString(i.Prefix) && !slices.Contains(takenPrefixes, i.Prefix), "prefix %q: want a-z, 0-9, - and a colon at the end, none of %s", i.Prefix, strings.Join(takenPrefixes, " "))
	for _, alg := range i.Algorithms {
		check(slices.Contains(algorithms, jose.SignatureAlgorithm(alg)), "algorithms: %q is none of %v", alg, algorithms)
	}
	check(i.Scopes.Claim != "" && len(i.Scopes.Map) > 0, "scopes: claim and map are required: what gives which scopes")
	for value, names := range i.Scopes.Map {
		_, err := scopesOf(names)
		check(err == nil && len(names) > 0, "scopes.map[%s]: %v", value, err)
	}
	faults = append(faults, i.Namespaces.validate(i.Issuer)...)
	return errors.Join(faults...)
}

// validate returns the faults of an issuer's rule for namespaces.
func (s Spaces) validate(issuer string) (faults []error) {
	ways := 0
	for _, set := range []bool{s.All, len(s.Fixed) > 0, s.Claim != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 || s.Claim == "" && len(s.Map) > 0 {
		faults = append(faults, fmt.Errorf("issuer %q: namespaces: want exactly one of all, fixed and claim (which may have a map)", issuer))
	}
	for _, name := range s.Fixed {
		if !namespaceForm.MatchString(name) {
			faults = append(faults, fmt.Errorf("issuer %q: namespaces.fixed: %q is no name of a namespace", issuer, name))
		}
	}
	return faults
}

func scopesOf(names []string) (set runtime.Scopes, err error) {
	for _, name := range names {
		one, ok := policy.ScopeByName(name)
		if !ok {
			return 0, fmt.Errorf("unknown scope %q; known scopes are %s", name, policy.AllScopes)
		}
		set |= one
	}
	return set, nil
}

// safeURL reports whether only the owner of a URL's host can answer a fetch of the URL. This is the
// case for https, and for http on loopback.
func safeURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
