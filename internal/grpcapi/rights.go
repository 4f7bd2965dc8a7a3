package grpcapi

import (
	"errors"
	"fmt"
)

// Rights are who may call: everything that may change while a server serves.
type Rights struct {
	// Tokens and Certificates are as in [Config]. Its PEM files are read again.
	Tokens       []Token
	Certificates []Certificate
}

// rights is a checked [Rights] with the keys that were read with it.
type rights struct {
	keys         *keys
	tokens       *tokenSet
	certificates *certificateSet
}

// readRights reads the PEM files and reports all faults at once.
func readRights(cfg Config) (rights, error) {
	keys, keyErr := keyFiles{cfg.TLSCert, cfg.TLSKey, cfg.TLSClientCA}.read()
	tokens, tokenErr := newTokenSet(cfg.Tokens)
	var certErr error
	var certificates *certificateSet
	if keyErr == nil {
		certificates, certErr = newCertificateSet(keys, cfg.Certificates)
	}
	return rights{keys, tokens, certificates}, errors.Join(keyErr, tokenErr, certErr)
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
	if next.tokens.empty() != s.auth.current.Load().tokens.empty() {
		return errors.New("grpcapi: tokens are turned on or off only by a restart")
	}
	if s.keys != nil {
		s.keys.current.Store(next.keys)
	}
	s.auth.replace(next.tokens, next.certificates)
	return nil
}
