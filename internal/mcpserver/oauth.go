package mcpserver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// metadataPath comes before the path of a resource in the path of its metadata (RFC 9728, section 3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// serveMetadata answers with the OAuth metadata of a path of this port: which issuers may sign the tokens of its callers.
// The status is 404 if no issuer is configured.
func (s *Service) serveMetadata(w http.ResponseWriter, r *http.Request, path string) {
	issuers, scopes := s.trusted()
	if len(issuers) == 0 {
		http.Error(w, "no issuer of tokens is configured", http.StatusNotFound)
		return
	}
	auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: s.base(r) + path, ResourceName: "Pawl", AuthorizationServers: issuers, ScopesSupported: scopes, BearerMethodsSupported: []string{"header"},
	}).ServeHTTP(w, r)
}

// challenge returns the header WWW-Authenticate of a refused request. It names the metadata if there is any (RFC 9728, section 5.1).
func (s *Service) challenge(r *http.Request) string {
	if issuers, _ := s.trusted(); len(issuers) == 0 {
		return "Bearer"
	}
	return fmt.Sprintf("Bearer resource_metadata=%q", s.base(r)+metadataPath+r.URL.EscapedPath())
}

func (s *Service) trusted() (issuers, scopes []string) {
	if s.cfg.Trusted == nil {
		return nil, nil
	}
	return s.cfg.Trusted()
}

// base returns the URL of this port, as the caller of a request knows it.
func (s *Service) base(r *http.Request) string {
	switch {
	case s.cfg.URL != "":
		return strings.TrimSuffix(s.cfg.URL, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
