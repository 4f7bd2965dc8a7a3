package grpcapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// cloudEventType is the media type of one event in structured mode (CloudEvents 1.0,
// JSON format, section 3).
const cloudEventType = "application/cloudevents+json"

// cloudEvent is a record in the form of CloudEvents 1.0. Source and id together identify the record
// among the records of all stores.
type cloudEvent struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	// DecisionLink is an extension attribute of CloudEvents. Only events about a tool call that waits for approval
	// have it.
	DecisionLink string          `json:"decisionlink,omitempty"`
	Data         json.RawMessage `json:"data"`
}

// RecordFeed reads the records for one webhook, as CloudEvents or messages for people.
type RecordFeed struct {
	auth  *auth.Authenticator
	watch *streams.Watch
	show  *recordEncoder
	owner string
	// links makes the decision links in messages about tool calls that wait for approval, while the webhook's owner
	// may decide about these calls. nil means that there are no links.
	links  *linkMaker
	format machine.MessageFormat
	// at is the cursor of the last record that was read, or of the end of a page without records.
	at runtime.Cursor
}

// RecordFeed opens a feed of the records after the position of a webhook. The feed has the rights of
// the webhook's owner. It returns an error if the owner may no longer read runs.
func (o *Services) RecordFeed(ctx context.Context, sub *machine.Subscription) (*RecordFeed, error) {
	watch, call, err := o.runtime.WatchSubscription(ctx, sub)
	if err != nil {
		return nil, err
	}
	if err := o.s.auth.MayRead(sub.Owner, call.Namespace, runtime.ScopeRunsRead); err != nil {
		watch.Close()
		return nil, err
	}
	show := newRecordEncoder(o.runs, call)
	// The record is sent to a third party, so it is redacted even if the webhook's owner may read the sensitive
	// values.
	show.redacting = true
	return &RecordFeed{
		auth: o.s.auth, watch: watch, show: show, owner: sub.Owner,
		links: o.s.webhookLinks(sub, show.namespace()), format: sub.Format, at: o.runtime.Subscriptions.SubscriptionCursor(sub),
	}, nil
}

// MayRead returns an error if a principal currently has none of the scopes in a namespace.
func (o *Services) MayRead(name string, namespace uint32, scopes runtime.Scopes) error {
	return o.s.auth.MayRead(name, o.runtime.NamespaceName(namespace), scopes)
}

// Next waits for the next events. The feed ends only when Next returns an error.
func (f *RecordFeed) Next(ctx context.Context) ([]machine.Delivery, error) {
	for {
		page, err := f.watch.Next(ctx)
		if errors.Is(err, streams.ErrEnded) {
			// The engine is closing. The next owner of the store delivers the remaining records.
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if err := f.auth.MayRead(f.owner, f.show.namespace(), runtime.ScopeRunsRead); err != nil {
			return nil, err
		}
		out, err := f.deliveries(ctx, &page)
		if err != nil || len(out) > 0 {
			return out, err
		}
	}
}

// deliveries converts a page of records to events for a receiver. A page without records gives one event that only
// advances the stored position.
func (f *RecordFeed) deliveries(ctx context.Context, page *streams.Page) ([]machine.Delivery, error) {
	if len(page.Records) == 0 {
		if page.Cursor == f.at {
			return nil, nil
		}
		f.at = page.Cursor
		return []machine.Delivery{{After: f.at.Position, Index: f.at.Index}}, nil
	}
	out := make([]machine.Delivery, len(page.Records))
	for i := range page.Records {
		row := &page.Records[i]
		out[i].After, out[i].Index = row.Cursor.Position, row.Cursor.Index
		f.at = row.Cursor
		record, err := f.show.record(ctx, row)
		if machine.IsDeleted(err) {
			continue // the run was deleted after the record was read; only the position advances
		}
		if err != nil {
			return nil, err
		}
		link, ends := f.link(row, record)
		if out[i].Type, out[i].Body, err = f.message(row, record, link, ends); err != nil {
			return nil, err
		}
		if out[i].Body == nil {
			continue // the format leaves the record out; only the position advances
		}
		run, err := f.show.run(ctx, row.RunID)
		if err != nil {
			return nil, err
		}
		out[i].ID, out[i].Erasable = recordID(row), run.erasable
	}
	return out, nil
}

func recordID(row *runtime.RecordRow) string { return fmt.Sprintf("%s/%d", row.RunID, row.Record.Seq) }

// link returns the decision link for a record about a held call (one that waits for approval), or "". The link's
// validity begins at the time of the record, so that each attempt sends the same body.
func (f *RecordFeed) link(row *runtime.RecordRow, record *pawlv1.Record) (string, time.Time) {
	requested := record.GetStepRequested()
	if f.links == nil || requested.GetHold() == nil || f.auth.MayRead(f.owner, f.show.namespace(), runtime.ScopeStepsApprove) != nil {
		return "", time.Time{}
	}
	return f.links.url(row.RunID, requested.GetStep(), requested.GetHold().GetDigest(), time.Unix(0, row.Record.At))
}

// message returns a record in the format of the webhook. body is nil if this format does not include
// the record.
func (f *RecordFeed) message(row *runtime.RecordRow, record *pawlv1.Record, link string, ends time.Time) (mediaType string, body []byte, err error) {
	if f.format == machine.FormatCloudEvents {
		body, err = f.event(row, record, link)
		return cloudEventType, body, err
	}
	note, ok := noteOf(record, link, ends)
	if !ok {
		return "", nil, nil
	}
	return note.write(f.format)
}

func (f *RecordFeed) event(row *runtime.RecordRow, record *pawlv1.Record, link string) ([]byte, error) {
	data, err := protojson.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", recordID(row), err)
	}
	kind := pawlv1.RecordKind(machine.RecordKindOf(row.Record.Body))
	return json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: recordID(row), Subject: row.RunID, DataContentType: "application/json", Data: data, DecisionLink: link,
		Source: fmt.Sprintf("/pawl/%s/%s", hex.EncodeToString(row.Cursor.Epoch[:]), f.show.namespace()),
		Type:   "dev.pawl.record." + strings.ToLower(strings.TrimPrefix(kind.String(), "RECORD_KIND_")),
		Time:   time.Unix(0, row.Record.At).UTC().Format(time.RFC3339Nano),
	})
}

// Close ends the feed.
func (f *RecordFeed) Close() { f.watch.Close() }
