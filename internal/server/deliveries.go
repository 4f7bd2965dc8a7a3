package server

import (
	"context"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// newOutbox returns the outbox of a partition, which sends delegations and events of subscriptions. If
// A2A is off, sends is nil. Delegations and push messages then stay in the store.
func newOutbox(opts options, engine *services.Runtime, sends *delegations, records *recordFeed, counts *telemetry.Metrics) (*delivery.Outbox, error) {
	conf := delivery.Config{
		Delegations: engine.Delegations, Subscriptions: engine.Subscriptions, Log: opts.log, Counts: deliveryCounts{counts}, Post: delivery.NewHTTPPoster(opts.config.PushPrefixes()),
		Feeds: map[machine.SubscriptionKind]delivery.Feed{machine.SubscriptionWebhook: records},
	}
	if sends != nil {
		conf.Directory = sends.directory
		conf.Feeds[machine.SubscriptionPush] = pushFeed{sends.service, records}
	}
	return delivery.New(conf)
}

// deliveryCounts counts deliveries in the metrics. The field metrics is nil if metrics are off.
type deliveryCounts struct{ metrics *telemetry.Metrics }

func (c deliveryCounts) Delivery(kind machine.SubscriptionKind, became delivery.AttemptOutcome) {
	c.metrics.Delivery(kind, string(became))
}

func (c deliveryCounts) DeliveryFault(kind machine.SubscriptionKind, doing delivery.Activity) {
	c.metrics.DeliveryFault(kind, string(doing))
}

// send runs the outbox of the partition until ctx ends. If A2A is on, it also serves the agents of this
// sidecar's own packs.
func (t *partition) send(ctx context.Context) error {
	if t.sends == nil {
		return t.box.Run(ctx)
	}
	return t.sends.run(ctx, t.box)
}

// pushes returns the push configurations of A2A, which the outbox delivers.
func pushes(engine *services.Runtime, box *delivery.Outbox) *a2a.Pushes {
	return &a2a.Pushes{Engine: engine.Subscriptions, Serve: box.Serve, Stop: box.Stop}
}

// pushFeed gives the outbox the events of A2A tasks for push messages.
type pushFeed struct {
	service *a2a.Service
	rights  *recordFeed
}

// Open implements [delivery.Feed].
func (f pushFeed) Open(ctx context.Context, sub *machine.Subscription) (delivery.Events, error) {
	return f.service.PushEvents(ctx, sub)
}

// May checks that the owner of a push configuration may still read its tasks, because the owner may
// have lost this right. The sidecar itself may always read its own tasks.
func (f pushFeed) May(sub *machine.Subscription) error {
	if sub.Owner == runtime.OwnName {
		return nil
	}
	return f.rights.services.MayRead(sub.Owner, sub.Namespace, runtime.ScopeRunsRead|runtime.ScopeRunsWrite)
}

// recordFeed provides the records that the outbox sends to webhooks. The field services is set after
// the outbox was created and before it runs.
type recordFeed struct{ services *grpcapi.Services }

func (f *recordFeed) Open(ctx context.Context, sub *machine.Subscription) (delivery.Events, error) {
	return f.services.RecordFeed(ctx, sub)
}

// May implements [delivery.Feed].
func (f *recordFeed) May(sub *machine.Subscription) error {
	return f.services.MayRead(sub.Owner, sub.Namespace, runtime.ScopeRunsRead)
}
