package grpcapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth/oidc"
	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
)

// Rights are the tokens, certificates and keys that may be replaced while a server runs.
type Rights struct {
	// Tokens and Certificates have the same meaning as in [Config]. The PEM files of the config are
	// read again.
	Tokens       []auth.Token
	Certificates []auth.Certificate
	// Issuers have the same meaning as in [Config]. The files of their keys are read again.
	Issuers []oidc.Issuer
	// LinkKeys are as in [Config]. An empty list keeps the current keys.
	LinkKeys decisionlink.Keys
}

// rights are [Rights] that have been checked, with the TLS keys that were read at the same time.
type rights struct {
	keys         *auth.Keys
	tokens       *auth.TokenSet
	certificates *auth.CertificateSet
	issuers      *oidc.Set
}

// state returns the part of the rights that the authenticator needs.
func (r *rights) state() auth.AuthState {
	return auth.AuthState{Tokens: r.tokens, Certificates: r.certificates, Issuers: r.issuers}
}

// readRights reads the PEM files and checks the rights. Its error contains all faults, but those of the certificates only
// if the PEM files can be read. lost is called when an issuer no longer publishes a key. The keys of the same issuers are
// copied from old.
func readRights(cfg Config, old *oidc.Set, lost func()) (rights, error) {
	keys, keyErr := auth.KeyFiles{Cert: cfg.TLSCert, Key: cfg.TLSKey, ClientCA: cfg.TLSClientCA}.Read()
	tokens, tokenErr := auth.NewTokenSet(cfg.Tokens)
	var certErr error
	var certificates *auth.CertificateSet
	if keyErr == nil {
		certificates, certErr = auth.NewCertificateSet(keys, cfg.Certificates)
	}
	issuers, issuerErr := oidc.NewSet(cfg.Issuers, old, lost)
	return rights{keys, tokens, certificates, issuers}, errors.Join(keyErr, tokenErr, certErr, issuerErr, unserved(cfg), clashing(cfg, issuers))
}

// CheckRights makes the checks of [New] that are about the rights: of the PEM files, tokens, certificates and issuers. Its error contains
// all faults.
func CheckRights(cfg Config) error {
	_, err := readRights(cfg, nil, func() {})
	return err
}

// clashing returns an error that names the tokens whose principals could be confused with principals of
// an issuer.
func clashing(cfg Config, issuers *oidc.Set) error {
	var faults []error
	for _, t := range cfg.Tokens {
		if issuers.MayCollide(t.Principal) {
			faults = append(faults, fmt.Errorf("principal %q has a name of those that an issuer gives", t.Principal))
		}
	}
	return errors.Join(faults...)
}

// unserved returns an error that names the lines of rights whose namespace does not exist.
func unserved(cfg Config) error {
	served := cfg.Spaces.WithDefault().Names()
	if cfg.Runtime != nil {
		served = cfg.Runtime.Namespaces()
	}
	var faults []error
	check := func(name string, namespaces []string) {
		for _, one := range namespaces {
			if !slices.Contains(served, one) {
				faults = append(faults, fmt.Errorf("principal %q is kept to namespace %q, which is not served; served are %s", name, one, strings.Join(served, ", ")))
			}
		}
	}
	for _, t := range cfg.Tokens {
		check(t.Principal, t.Namespaces)
	}
	for _, c := range cfg.Certificates {
		check(c.Name, c.Namespaces)
	}
	return errors.Join(faults...)
}

// SetRights replaces the [Rights] of a running server. If there is an error, it replaces none of them. New connections
// use the new keys. Running calls finish, but streams of principals that lost rights end. SetRights cannot turn
// authentication by tokens on or off, because the permitted addresses depend on it.
func (s *Server) SetRights(r Rights) error {
	set, err := s.ReadyRights(r)
	if err == nil {
		set()
	}
	return err
}

// ReadyRights does the same as SetRights in two steps. It makes all checks and returns the function
// set. set replaces the rights and cannot fail.
func (s *Server) ReadyRights(r Rights) (set func(), err error) {
	cfg := s.cfg
	cfg.Tokens, cfg.Certificates, cfg.Issuers = r.Tokens, r.Certificates, r.Issuers
	now := s.auth.Current.Load()
	next, err := readRights(cfg, now.Issuers, s.renew)
	if err != nil {
		return nil, fmt.Errorf("grpcapi: %w", err)
	}
	state := next.state()
	if state.AsksToken() != now.AsksToken() {
		return nil, errors.New("grpcapi: tokens are turned on or off only by a restart")
	}
	return func() {
		if s.keys != nil {
			s.keys.Current.Store(next.keys)
		}
		if s.links != nil && len(r.LinkKeys) > 0 {
			s.links.Replace(r.LinkKeys)
		}
		s.auth.Replace(state)
	}, nil
}

// CertificateExpiry returns the end of the validity of the server's current certificate. The server must
// use TLS.
func (s *Server) CertificateExpiry() time.Time { return s.keys.Current.Load().Expiry() }

// renew makes every open stream check its principal again, because an issuer no longer publishes a key. It may be
// called before the server is complete, and then does nothing.
func (s *Server) renew() {
	if s.auth != nil {
		s.auth.Renew()
	}
}
