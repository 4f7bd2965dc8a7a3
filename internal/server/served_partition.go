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

// servedPartition is an open partition of a cluster. Calls reach it through the slot of the partition.
type servedPartition struct {
	*grpcapi.Services
	*partition
	app  *app
	part int32
	// failed is closed when the store accepts no more commits, or when one of the partition's loops has
	// ended by itself. leaving is closed when the partition must be closed. closed is closed when it is
	// closed.
	failed, leaving, closed chan struct{}
}

// acquirePartition opens a partition and starts it. A sidecar without a cluster does the same with its
// store.
func (a *app) acquirePartition(ctx context.Context, part int32) (membership.OpenPartition, error) {
	opts := a.cluster.partitionOptions(a.opts, part)
	t, err := openPartition(opts, a.files.Load(), a.cluster.storage(opts.config, part, opts.log), a.observers)
	if err != nil {
		return nil, err
	}
	h := &servedPartition{partition: t, app: a, part: part, failed: make(chan struct{}), leaving: make(chan struct{}), closed: make(chan struct{})}
	h.Services, err = a.server.Services(grpcapi.ServiceConfig{
		Runtime: t.runtime, Deliveries: t.box, Store: &storeAdmin{store: t.store, part: part, paced: true}, Plugin: a2aPlugin[*grpcapi.Services](t),
	})
	if err != nil {
		return nil, errors.Join(err, t.drain(ctx), t.close())
	}
	t.records.services = h.Services
	a.reading.RLock()
	defer a.reading.RUnlock()
	a.partitions.put(part, t)
	// The files may have been read again while the partition was opened, so the newest contents are
	// used.
	t.files = a.files.Load()
	t.replace(t.files)
	if err := a.registerConfigured(ctx, t); err != nil {
		a.partitions.drop(part)
		return nil, errors.Join(err, t.drain(ctx), t.close())
	}
	t.start()
	go h.watchFailure()
	a.cluster.counts.Took()
	return h, nil
}

// registerConfigured stores the packs and schedules of the configuration in a partition. Faults of the
// packs and schedules were already reported when the process started. So an error here is an error of
// the store, and the store must be opened again.
func (a *app) registerConfigured(ctx context.Context, t *partition) error {
	// Packs are never deleted, so they are registered only once. Callers have to wait until all of them
	// are compiled.
	if !a.cluster.offered.Load() {
		_, err := t.registerPacks(ctx, t.opts.config.Packs)
		if isAway(err) {
			return err
		}
		if err != nil {
			t.opts.log.Error("registering configured packs failed", "error", err)
		}
	}
	err := t.agree(ctx)
	if isAway(err) {
		return err
	}
	if err != nil {
		t.opts.log.Error("applying configured schedules failed", "error", err)
	}
	return nil
}

// isAway reports whether an error is temporary and not caused by the caller.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	st, _ := apierror.Status(err)
	return st.Code() == codes.Unavailable
}

// watchFailure closes failed when the store or a loop fails.
func (h *servedPartition) watchFailure() {
	select {
	case <-h.leaving:
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

// Close implements [membership.OpenPartition]. It stops the partition in the same way as the end of a
// sidecar.
func (h *servedPartition) Close(ctx context.Context) error {
	outcome := telemetry.OutcomeHandover
	select {
	case <-h.failed:
		outcome = telemetry.StoreLost
	default:
	}
	close(h.leaving)
	err := h.drain(ctx)
	h.app.partitions.drop(h.part)
	err = errors.Join(err, h.close())
	h.app.cluster.counts.Gave(outcome)
	close(h.closed)
	return err
}
