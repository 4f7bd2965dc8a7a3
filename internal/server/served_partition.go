package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/pawl-dev/pawl/internal/cluster/membership"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// servedPartition is an open partition of a node in a cluster. It implements
// [membership.OpenPartition], and the router sends it the calls of the partition.
type servedPartition struct {
	*grpcapi.Services
	*partition
	app  *app
	part int32
	// failed is closed when the store accepts no more commits, or when a background loop of the
	// partition has ended by itself. closing is closed when Close begins, and closed when Close has
	// ended.
	failed, closing, closed chan struct{}
}

// acquirePartition takes over a partition for this node, opens it and starts its background work.
func (a *app) acquirePartition(ctx context.Context, part int32) (membership.OpenPartition, error) {
	opts := a.cluster.partitionOptions(a.opts, part)
	t, err := openPartition(opts, a.files.Load(), a.cluster.storage(opts.config, part, opts.log), a.observers)
	if err != nil {
		return nil, err
	}
	h := &servedPartition{partition: t, app: a, part: part, failed: make(chan struct{}), closing: make(chan struct{}), closed: make(chan struct{})}
	h.Services, err = a.server.Services(grpcapi.ServiceConfig{
		Runtime: t.runtime, Deliveries: t.box, Store: &storeAdmin{store: t.store, part: part, limited: true}, Plugin: a2aPlugin[*grpcapi.Services](t),
	})
	if err != nil {
		return nil, errors.Join(err, t.drain(ctx), t.close())
	}
	t.records.services = h.Services
	a.reading.RLock()
	defer a.reading.RUnlock()
	a.partitions.put(part, t)
	// The files may have been reloaded since this partition began to open, so the newest contents are
	// applied.
	t.files = a.files.Load()
	t.replace(t.files)
	if err := a.registerConfigured(ctx, t); err != nil {
		a.partitions.drop(part)
		return nil, errors.Join(err, t.drain(ctx), t.close())
	}
	t.start()
	go h.watchFailure()
	a.cluster.counts.CountAcquired()
	return h, nil
}

// registerConfigured stores the configured packs and schedules in a partition. It returns only
// temporary errors, after which the partition must be opened again. Other errors are logged, because
// the start of the process has already checked the configuration.
func (a *app) registerConfigured(ctx context.Context, t *partition) error {
	// Packs are never deleted, so they are registered only once in a process. Otherwise callers would
	// wait at each takeover until all packs are compiled.
	if !a.cluster.packsRegistered.Load() {
		_, err := t.registerPacks(ctx, t.opts.config.Packs)
		if isAway(err) {
			return err
		}
		if err != nil {
			t.opts.log.Error("registering configured packs failed", "error", err)
		}
	}
	err := t.storeSchedules(ctx)
	if isAway(err) {
		return err
	}
	if err != nil {
		t.opts.log.Error("applying configured schedules failed", "error", err)
	}
	return nil
}

// isAway reports whether an error is temporary, which means that its code is UNAVAILABLE.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	st, _ := apierror.Status(err)
	return st.Code() == codes.Unavailable
}

// watchFailure closes the channel failed when the store fails or a background loop of the partition
// ends.
func (h *servedPartition) watchFailure() {
	select {
	case <-h.closing:
		return
	case <-h.runtime.Failed():
	case err := <-h.ended:
		h.ended <- err // drain must read the error too
	}
	close(h.failed)
}

// Failed implements [router.Backend].
func (h *servedPartition) Failed() <-chan struct{} { return h.failed }

// Closed implements [membership.OpenPartition].
func (h *servedPartition) Closed() <-chan struct{} { return h.closed }

// Close implements [membership.OpenPartition]. It drains the partition, closes its store and releases
// the ownership.
func (h *servedPartition) Close(ctx context.Context) error {
	outcome := telemetry.OutcomeHandover
	select {
	case <-h.failed:
		outcome = telemetry.StoreLost
	default:
	}
	close(h.closing)
	err := h.drain(ctx)
	h.app.partitions.drop(h.part)
	err = errors.Join(err, h.close())
	h.app.cluster.counts.CountReleased(outcome)
	close(h.closed)
	return err
}
