package subscription

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// maxWebhooks limits the webhooks of a namespace.
const maxWebhooks = 100

// These are the limits for the length of the key that signs a webhook's messages, in bytes (Standard
// Webhooks, "Symmetric").
const (
	minSecret = 24
	maxSecret = 64
)

// secretPrefix is the prefix of the text form of a key (Standard Webhooks).
const secretPrefix = "whsec_"

// WebhookRequest is the argument of [Service.PutWebhook].
type WebhookRequest struct {
	runtime.Call
	ID  string
	URL string
	// Secret is "whsec_" followed by the base64 of 24 to 64 bytes. The value "" keeps the current
	// secret of an existing webhook.
	Secret string
	Filter machine.RunFilter
	Kinds  []machine.RecordKind
	// FromBeginning means that a new webhook begins with the first record of the namespace. Otherwise
	// it begins with the next new record.
	FromBeginning bool
	// LinkFor and Format are as in [machine.Subscription].
	LinkFor string
	Format  machine.MessageFormat
}

// PutWebhook creates or changes a webhook. A changed webhook keeps its position, and its next attempt
// to send an event is made immediately.
//
// Errors: BAD_URL, BAD_SECRET, WEBHOOK_TAKEN, MAX_WEBHOOKS, SUBSCRIPTION_CONTENDED.
func (r *Service) PutWebhook(ctx context.Context, req WebhookRequest) (sub machine.Subscription, created bool, err error) {
	ns, err := r.readableNamespace(req.Call)
	if err != nil {
		return sub, false, err
	}
	if err := checkURL(req.URL); err != nil {
		return sub, false, err
	}
	secret, err := readSecret(req.Secret)
	if err != nil {
		return sub, false, err
	}
	key := machine.SubscriptionKey{Namespace: ns, Kind: machine.SubscriptionWebhook, ID: req.ID}
	full := func(have int) error { return tooMany("MAX_WEBHOOKS", "webhook_id", maxWebhooks, have+1) }
	return r.establish(ctx, key, maxWebhooks, full, func(before *machine.Subscription) (*machine.Subscription, error) {
		sub, err := r.webhook(ctx, key, &req, before)
		if err != nil {
			return nil, err
		}
		if sub.URL, sub.Filter, sub.Kinds = req.URL, req.Filter, req.Kinds; secret != nil {
			sub.Secret = secret
		}
		if sub.LinkFor, sub.Format = req.LinkFor, req.Format; len(sub.Kinds) == 0 && (sub.LinkFor != "" || sub.Format != machine.FormatCloudEvents) {
			sub.Kinds = []machine.RecordKind{machine.RecStepRequested}
		}
		if sub.Secret == nil {
			return nil, badSecret("a new webhook needs one", 0)
		}
		return &sub, nil
	})
}

// webhook returns the webhook into which PutWebhook writes the values of the request: a new webhook, or before without
// its failed attempts.
func (r *Service) webhook(ctx context.Context, key machine.SubscriptionKey, req *WebhookRequest, before *machine.Subscription) (sub machine.Subscription, err error) {
	if before != nil {
		if !req.Principal.Owns(before.Owner) {
			return sub, nameTakenError("WEBHOOK_TAKEN", "webhook_id", key.ID)
		}
		sub = *before
		sub.Attempts, sub.NextAt, sub.LastError = 0, 0, ""
		return sub, nil
	}
	sub = machine.Subscription{SubscriptionKey: key, Owner: req.Principal.Name(), CreatedAt: r.cfg.Clock.Now().UnixNano()}
	if !req.FromBeginning {
		sub.After, err = r.cfg.Journal.Tail(ctx, key.Namespace)
		sub.Index = validate.WholeEntry
	}
	return sub, inSubscription(key, err)
}

// checkURL returns an error unless the text is the URL of a receiver: http or https, with a host, and without user
// and fragment.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_URL", Field: "url",
			Message: "is not the URL of a receiver", Allowed: []string{"http://HOST[:PORT]/PATH", "https://HOST[:PORT]/PATH"},
		}
	case u.User != nil || u.Fragment != "":
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_URL", Field: "url", Message: "must have neither user nor fragment",
		}
	}
	return nil
}

// readSecret decodes a webhook's secret from its text form ("whsec_" and base64). For "" it returns
// nil.
func readSecret(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case !ok || err != nil:
		return nil, badSecret("is not whsec_ and standard base64", len(secret))
	case len(secret) < minSecret:
		return nil, badSecret("is too short", len(secret))
	case len(secret) > maxSecret:
		return nil, badSecret("is too long", len(secret))
	}
	return secret, nil
}

// badSecret returns the error for an invalid secret. The error does not contain the secret.
func badSecret(why string, got int) error {
	limit := int64(minSecret)
	if got > maxSecret {
		limit = maxSecret
	}
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "BAD_SECRET", Field: "secret",
		Message: fmt.Sprintf("%s; want whsec_ and the base64 of %d to %d bytes", why, minSecret, maxSecret),
		Limit:   limit, Got: int64(got),
	}
}

// DeleteWebhook removes a webhook with its dead letters and returns its key. Error: WEBHOOK_NOT_FOUND.
func (r *Service) DeleteWebhook(ctx context.Context, call runtime.Call, id string) (machine.SubscriptionKey, error) {
	return r.removeOwn(ctx, call, machine.SubscriptionWebhook, id)
}
