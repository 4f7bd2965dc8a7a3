package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// endlessBackend is a store that writes until its context ends or the reader refuses its data.
type endlessBackend struct {
	// checked is the number of progress reports of a check that were sent.
	checked int
}

func (e *endlessBackend) Partition() uint32 { return 0 }

func (e *endlessBackend) Backup(ctx context.Context, _ string, out io.Writer) error {
	for ctx.Err() == nil {
		if _, err := out.Write(bytes.Repeat([]byte{1}, backupPiece)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *endlessBackend) Check(ctx context.Context, progress func(*pawlv1.CheckCounts) error) (*pawlv1.CheckCounts, *pawlv1.CheckFault, error) {
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		if err := progress(&pawlv1.CheckCounts{}); err != nil {
			return nil, nil, err
		}
		e.checked++
	}
	return nil, nil, ctx.Err()
}

func (e *endlessBackend) Stats(ctx context.Context) (*pawlv1.StoreStats, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// stuckStream is a stream without a reader.
type stuckStream[T any] struct {
	grpc.ServerStream
	ctx   context.Context
	taken int
}

func (s *stuckStream[T]) Context() context.Context { return s.ctx }

func (s *stuckStream[T]) Send(*T) error {
	if s.taken--; s.taken >= 0 {
		return nil
	}
	<-s.ctx.Done()
	return s.ctx.Err()
}

func errorReason(err error) string {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	return ""
}

// storeCalls returns the three calls by name. Their client reads a few messages and then stops reading.
func storeCalls(s *storeService) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"backup": func(ctx context.Context) error {
			return s.Backup(&pawlv1.BackupRequest{}, &stuckStream[pawlv1.BackupResponse]{ctx: ctx, taken: 3})
		},
		"check": func(ctx context.Context) error {
			return s.CheckStore(&pawlv1.CheckStoreRequest{}, &stuckStream[pawlv1.CheckStoreResponse]{ctx: ctx, taken: 3})
		},
		"stats": func(ctx context.Context) error {
			_, err := s.GetStoreStats(ctx, &pawlv1.GetStoreStatsRequest{})
			return err
		},
	}
}

// TestAReaderWhoStopsIsLetGo: a client that takes nothing of a backup or a check does not hold the store for
// ever, and the next call is served. A check continues while its progress report waits.
func TestAReaderWhoStopsIsLetGo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"backup", "check"} {
		synctest.Test(t, func(t *testing.T) {
			store := &endlessBackend{}
			s := newStoreService(store, nil, func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
				return context.WithCancel(ctx)
			})
			for range 2 {
				begun := time.Now()
				// The stream's context ends when the method has returned.
				ctx, cancel := context.WithCancel(t.Context())
				err := storeCalls(s)[name](ctx)
				cancel()
				if errorReason(err) != "READER_STALLED" || time.Since(begun) > sendTimeout+10*time.Second {
					t.Errorf("%s ended after %v: %v", name, time.Since(begun), err)
				}
			}
			if name == "check" && store.checked < int(sendTimeout/time.Second) {
				t.Errorf("the check waited: %d", store.checked)
			}
		})
	}
}

// TestNothingOutlivesTheRightToIt: a caller that loses the right to a call loses the call, even while a
// message waits for the reader. A server that stops does not wait for the reader.
func TestNothingOutlivesTheRightToIt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"backup", "check", "stats"} {
		synctest.Test(t, func(t *testing.T) {
			lost := make(chan struct{})
			s := newStoreService(&endlessBackend{}, nil, func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				go func() {
					select {
					case <-lost:
						cancel(&machine.Error{Code: machine.CodeUnavailable, Reason: "DRAINING"})
					case <-ctx.Done():
					}
				}()
				return ctx, func() { cancel(nil) }
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- storeCalls(s)[name](ctx) }()
			synctest.Wait()
			begun := time.Now()
			close(lost)
			// A check may be between two rows.
			if err := <-ended; errorReason(err) != "DRAINING" || time.Since(begun) > time.Second {
				t.Errorf("%s ended after %v: %v", name, time.Since(begun), err)
			}
		})
	}
}

// wholeBackend is a store of partition 3.
type wholeBackend struct{ endlessBackend }

func (*wholeBackend) Partition() uint32 { return 3 }

// TestABackupIsOfOnePartition: a backup of another partition gets PARTITION_NOT_FOUND. ListPartitions lists
// the partition of this store.
func TestABackupIsOfOnePartition(t *testing.T) {
	t.Parallel()
	s := newStoreService(&wholeBackend{}, func() []string { return []string{"default", "red"} }, func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
		return context.WithCancel(ctx)
	})
	if err := s.Backup(&pawlv1.BackupRequest{}, &stuckStream[pawlv1.BackupResponse]{ctx: t.Context()}); errorReason(err) != "PARTITION_NOT_FOUND" {
		t.Error(err)
	}
	got, err := s.ListPartitions(t.Context(), &pawlv1.ListPartitionsRequest{})
	if err != nil || len(got.GetPartitions()) != 1 || got.GetPartitions()[0].GetNumber() != 3 || len(got.GetPartitions()[0].GetNamespaces()) != 2 || !got.GetPartitions()[0].GetHere() {
		t.Error(got, err)
	}
}
