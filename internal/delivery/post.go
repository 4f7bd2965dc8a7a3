package delivery

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// postTimeout limits the time of one delivery to a webhook.
const postTimeout = 15 * time.Second

// maxAnswer limits how many bytes of a receiver's answer are read, and the size of the answer's
// headers. The body is read only so that the connection can be used again.
const maxAnswer = 64 << 10

// HTTPPoster delivers events with HTTP POST.
type HTTPPoster struct{ client *http.Client }

// NewHTTPPoster returns a poster that connects only to public addresses and to addresses in allow. It
// checks the address of each connection after the name was resolved.
func NewHTTPPoster(allow []netip.Prefix) *HTTPPoster { return newHTTPPoster(allow, nil) }

// newHTTPPoster returns a poster like [NewHTTPPoster] that resolves DNS names with the given resolver.
// nil means the system's resolver.
func newHTTPPoster(allow []netip.Prefix, names *net.Resolver) *HTTPPoster {
	dialer := &net.Dialer{Timeout: postTimeout, Resolver: names, Control: func(_, address string, _ syscall.RawConn) error {
		return guard(address, allow)
	}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext, transport.Proxy = dialer.DialContext, nil
	transport.MaxResponseHeaderBytes = maxAnswer
	return &HTTPPoster{client: &http.Client{
		Transport: transport, Timeout: postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}
}

var errRedirect = errors.New("the receiver answers with a redirection, which is not followed")

// Post sends an event. If the status of the answer is not 2xx, it returns an error.
func (p *HTTPPoster) Post(ctx context.Context, sub *machine.Subscription, event machine.Delivery) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.URL, bytes.NewReader(event.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", event.Type)
	req.Header.Set("User-Agent", "pawl")
	authenticate(req.Header, sub)
	if len(sub.Secret) > 0 {
		sign(req.Header, sub.Secret, event, time.Now())
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the receiver answers %s", resp.Status)
	}
	return nil
}

// authenticate sets the headers that contain the receiver's credentials and token. A2A clients expect
// the token under one of two header names, so both are set.
func authenticate(h http.Header, sub *machine.Subscription) {
	if sub.Scheme != "" {
		h.Set("Authorization", sub.Scheme+" "+sub.Credentials)
	}
	if sub.Token != "" {
		h.Set("A2a-Notification-Token", sub.Token)
		h.Set("X-A2a-Notification-Token", sub.Token)
	}
}

// sign signs an event according to Standard Webhooks, with the HMAC-SHA-256 of the id, the time and the
// body.
func sign(h http.Header, secret []byte, event machine.Delivery, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", event.ID, at, event.Body)
	h.Set("Webhook-Id", event.ID)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
