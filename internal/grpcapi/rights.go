package grpcapi

import (
	"errors"
	"fmt"

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
	if next.tokens.Empty() != s.auth.Current.Load().Tokens.Empty() {
		return errors.New("grpcapi: tokens are turned on or off only by a restart")
	}
	if s.keys != nil {
		s.keys.Current.Store(next.keys)
	}
	s.auth.Replace(next.tokens, next.certificates)
	return nil
}
