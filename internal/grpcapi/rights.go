package grpcapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/grpcapi/door"
)

// Rights are who may call: everything that may change while a server serves.
type Rights struct {
	// Tokens and Certificates are as in [Config]. Its PEM files are read again.
	Tokens       []door.Token
	Certificates []door.Certificate
}

// rights is a checked [Rights] with the keys that were read with it.
type rights struct {
	keys         *door.Keys
	tokens       *door.TokenSet
	certificates *door.CertificateSet
}

// readRights reads the PEM files and reports all faults at once.
func readRights(cfg Config) (rights, error) {
	keys, keyErr := door.KeyFiles{Cert: cfg.TLSCert, Key: cfg.TLSKey, ClientCA: cfg.TLSClientCA}.Read()
	tokens, tokenErr := door.NewTokenSet(cfg.Tokens)
	var certErr error
	var certificates *door.CertificateSet
	if keyErr == nil {
		certificates, certErr = door.NewCertificateSet(keys, cfg.Certificates)
	}
	return rights{keys, tokens, certificates}, errors.Join(keyErr, tokenErr, certErr, unserved(cfg))
}

// unserved names the lines of rights that hold in a namespace which is not served.
func unserved(cfg Config) error {
	if cfg.House == nil {
		return nil
	}
	var faults []error
	served := cfg.House.Namespaces()
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

// SetRights replaces the tokens and the certificates of a serving server, all or, on
// an error, nothing. New connections go by the new keys; calls under way finish;
// streams of principals that lost their right end. It refuses to turn authentication
// by tokens on or off, which would change what the addresses may be bound to.
func (s *Server) SetRights(r Rights) error {
	cfg := s.cfg
	cfg.Tokens, cfg.Certificates = r.Tokens, r.Certificates
	next, err := readRights(cfg)
	if err != nil {
		return fmt.Errorf("grpcapi: %w", err)
	}
	if next.tokens.Empty() != s.auth.Current.Load().Tokens.Empty() {
		return errors.New("grpcapi: tokens are turned on or off only by a restart")
	}
	if s.keys != nil {
		s.keys.Current.Store(next.keys)
	}
	s.auth.Replace(next.tokens, next.certificates)
	return nil
}
