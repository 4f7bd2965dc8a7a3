package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/secretfile"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// Limits of a fetch.
const (
	fetchTimeout  = 10 * time.Second
	maxFetchBytes = 1 << 20
	maxRedirects  = 3
)

// fetcher gets an issuer's keys over HTTP.
type fetcher struct {
	client *http.Client
	issuer string
	// keys is the URL of the JWKS. If it is empty, the URL is read from the issuer's configuration.
	keys string
}

// newFetcher returns a fetcher for the keys of an issuer. If the issuer has a CA, only certificates that it signs
// are accepted.
func newFetcher(i *Issuer) (*fetcher, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if i.CA != "" {
		pem, err := secretfile.ReadTrusted(i.CA)
		if err != nil {
			return nil, fmt.Errorf("issuer %q: ca: %w", i.Issuer, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("issuer %q: ca: %s holds no PEM certificate", i.Issuer, i.CA)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &fetcher{
		client: &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: sameHost}, issuer: i.Issuer, keys: i.JWKS,
	}, nil
}

// sameHost refuses a redirect to another host or scheme, and more than maxRedirects redirects.
func sameHost(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects || next.URL.Host != before[0].URL.Host || next.URL.Scheme != before[0].URL.Scheme {
		return errors.New("redirected to another host")
	}
	return nil
}

// fetch returns the bytes of the JWKS.
func (f *fetcher) fetch(ctx context.Context) ([]byte, error) {
	url := f.keys
	if url == "" {
		var err error
		if url, err = f.discover(ctx); err != nil {
			return nil, err
		}
	}
	return f.get(ctx, url)
}

// discover reads the URL of the JWKS from the issuer's configuration.
func (f *fetcher) discover(ctx context.Context) (string, error) {
	raw, err := f.get(ctx, strings.TrimSuffix(f.issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	var about struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if strictjson.Decode(raw, &about, strictjson.Foreign) != nil || about.Issuer != f.issuer || !safeURL(about.JWKS) || secret(f.issuer) && !secret(about.JWKS) {
		return "", errors.New("its openid-configuration is of another issuer, or has no jwks_uri that is https")
	}
	return about.JWKS, nil
}

// secret reports whether a URL uses https. Without this check, an issuer on another host could make
// this process call a service on its own loopback address.
func secret(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https"
}

// get reads a document of the issuer, of at most maxFetchBytes.
func (f *fetcher) get(ctx context.Context, url string) (raw []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", url, resp.StatusCode)
	}
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxFetchBytes+1))
	if err == nil && len(raw) > maxFetchBytes {
		err = fmt.Errorf("%s has more than %d bytes", url, maxFetchBytes)
	}
	return raw, err
}
