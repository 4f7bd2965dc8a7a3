package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxForeign is the largest accepted answer of an agent, in bytes.
const maxForeign = 8 << 20

var (
	errTooLarge   = fmt.Errorf("the agent's answer has more than %d bytes", maxForeign)
	errRedirected = errors.New("the agent answers with a redirection, which is not followed")
)

// httpClient returns the HTTP client for agents. It follows no redirects, uses no proxy, and limits the
// size of answers.
func httpClient(conf *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = conf
	transport.Proxy = nil
	transport.ResponseHeaderTimeout = callTimeout
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.IdleConnTimeout = 90 * time.Second
	return &http.Client{
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected },
	}
}

// bounded limits the bodies of answers, and converts answers that are errors. In a stream it limits
// each event. The length of the stream is limited by the duration of the delegation.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := ofHTTP(resp); err != nil {
		return nil, err
	}
	streams := strings.HasPrefix(req.Header.Get("Accept"), "text/event-stream")
	resp.Body = &limitedBody{ReadCloser: resp.Body, remaining: maxForeign, perEvent: streams}
	return resp, nil
}

// limitedBody is a body that returns an error at its limit. An io.LimitReader would end without an
// error.
type limitedBody struct {
	io.ReadCloser
	remaining int
	// perEvent means that the limit counts from the last blank line. blank reports whether the current
	// line is empty so far.
	perEvent, blank bool
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.remaining < 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p)
	b.count(p[:n])
	if b.remaining < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// count subtracts read bytes from the limit. In an event stream the limit is for each event, so it begins again
// after an empty line.
func (b *limitedBody) count(p []byte) {
	b.remaining -= len(p)
	if !b.perEvent {
		return
	}
	for i, c := range p {
		switch {
		case c == '\n' && b.blank:
			b.remaining = maxForeign - (len(p) - i - 1)
		case c == '\n':
			b.blank = true
		case c != '\r':
			b.blank = false
		}
	}
}
