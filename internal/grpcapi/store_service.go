package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StoreBackend is the store of the sidecar, or a partition of it. Each method that reads sees the data
// of one moment. It ends early if its context ends or a callback returns an error.
type StoreBackend interface {
	// Partition returns the number of the partition. If the store is not partitioned, it returns 0.
	Partition() uint32
	// Backup writes a backup. The backup contains everything that is newer than the backup with the id
	// after. If after is "", it contains everything. Errors: *machine.Error BACKUP_FOREIGN.
	Backup(ctx context.Context, after string, out io.Writer) error
	// Check verifies the whole store. During the check it repeatedly calls progress with the current
	// counts.
	Check(ctx context.Context, progress func(*pawlv1.CheckCounts) error) (*pawlv1.CheckCounts, *pawlv1.CheckFault, error)
	// Stats returns the sizes of the store.
	Stats(ctx context.Context) (*pawlv1.StoreStats, error)
}

// storeGuard returns a context that ends when the caller loses its right to a method or the server
// drains.
type storeGuard func(ctx context.Context, method string) (context.Context, context.CancelFunc)

// storeService implements pawl.v1.StoreService.
type storeService struct {
	pawlv1.UnimplementedStoreServiceServer
	store      StoreBackend
	namespaces func() []string
	guard      storeGuard
	// A running call holds the mutex of its kind, so that only one call of each kind runs at a time.
	backup, check, stats sync.Mutex
}

// newStoreService returns the service of a store. If store is nil, the service refuses calls that
// concern the store.
func newStoreService(store StoreBackend, namespaces func() []string, guard storeGuard) *storeService {
	return &storeService{store: store, namespaces: namespaces, guard: guard}
}

// backupPiece is the maximum size of the data in one message of a backup, in bytes.
const backupPiece = 256 << 10

// Backup implements pawl.v1.StoreService.
func (s *storeService) Backup(in *pawlv1.BackupRequest, stream grpc.ServerStreamingServer[pawlv1.BackupResponse]) error {
	ctx, end := s.guard(stream.Context(), pawlv1.StoreService_Backup_FullMethodName)
	defer end()
	return s.runExclusive(ctx, &s.backup, "a backup", func() error {
		if in.GetPartition() != s.store.Partition() {
			return noPartition(in.GetPartition())
		}
		out := codec.NewChunkWriter(backupPiece, func(piece []byte) error {
			return sendWithTimeout(ctx, func() error { return stream.Send(&pawlv1.BackupResponse{Data: piece}) })
		})
		if err := s.store.Backup(ctx, in.GetAfter(), out); err != nil {
			return err
		}
		return out.Flush()
	})
}

func noPartition(number uint32) error {
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "PARTITION_NOT_FOUND", Field: "partition",
		Message: fmt.Sprintf("there is no partition %d: ListPartitions has all that there are", number),
	}
}

// CheckStore implements pawl.v1.StoreService.
func (s *storeService) CheckStore(_ *pawlv1.CheckStoreRequest, stream grpc.ServerStreamingServer[pawlv1.CheckStoreResponse]) error {
	ctx, end := s.guard(stream.Context(), pawlv1.StoreService_CheckStore_FullMethodName)
	defer end()
	return s.runExclusive(ctx, &s.check, "a check", func() error {
		send := func(answer *pawlv1.CheckStoreResponse) error {
			return sendWithTimeout(ctx, func() error { return stream.Send(answer) })
		}
		counts, fault, err := s.checkWithProgress(ctx, func(soFar *pawlv1.CheckCounts) error {
			return send(&pawlv1.CheckStoreResponse{Answer: &pawlv1.CheckStoreResponse_Progress{Progress: soFar}})
		})
		switch {
		case err != nil:
			return err
		case fault != nil:
			return send(&pawlv1.CheckStoreResponse{Answer: &pawlv1.CheckStoreResponse_Fault{Fault: fault}})
		}
		return send(&pawlv1.CheckStoreResponse{Answer: &pawlv1.CheckStoreResponse_Done{Done: counts}})
	})
}

// checkWithProgress checks the store. It calls tell with the progress, but the check does not wait for tell. While a slow
// reader has not read the earlier counts, newer counts are dropped. If tell returns an error, the check ends with it.
func (s *storeService) checkWithProgress(ctx context.Context, tell func(*pawlv1.CheckCounts) error) (*pawlv1.CheckCounts, *pawlv1.CheckFault, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	news, told := make(chan *pawlv1.CheckCounts, 1), make(chan error, 1)
	go func() {
		var err error
		for soFar := range news {
			if err == nil {
				err = tell(soFar)
			}
			if err != nil {
				cancel(err)
			}
		}
		told <- err
	}()
	counts, fault, err := s.store.Check(ctx, func(soFar *pawlv1.CheckCounts) error {
		select {
		case news <- soFar:
		default:
		}
		return nil
	})
	close(news)
	if lost := <-told; lost != nil {
		return nil, nil, lost
	}
	return counts, fault, err
}

// GetStoreStats implements pawl.v1.StoreService.
func (s *storeService) GetStoreStats(ctx context.Context, _ *pawlv1.GetStoreStatsRequest) (out *pawlv1.GetStoreStatsResponse, err error) {
	ctx, end := s.guard(ctx, pawlv1.StoreService_GetStoreStats_FullMethodName)
	defer end()
	err = s.runExclusive(ctx, &s.stats, "a count", func() error {
		stats, err := s.store.Stats(ctx)
		out = &pawlv1.GetStoreStatsResponse{Stats: stats}
		return err
	})
	return out, err
}

// ListPartitions implements pawl.v1.StoreService. It returns the only partition of this server.
func (s *storeService) ListPartitions(context.Context, *pawlv1.ListPartitionsRequest) (*pawlv1.ListPartitionsResponse, error) {
	one := &pawlv1.Partition{Namespaces: s.namespaces(), Here: true}
	if s.store != nil {
		one.Number = s.store.Partition()
	}
	return &pawlv1.ListPartitionsResponse{Partitions: []*pawlv1.Partition{one}}, nil
}

// busyFor is the time after which a caller that was refused may try again.
const busyFor = 5 * time.Second

// runExclusive calls do while it holds the mutex busy. If another call holds the mutex, runExclusive returns an error,
// which names the work by the text in what. If do fails after ctx has ended, and the cause of ctx is a [machine.Error],
// runExclusive returns this cause.
func (s *storeService) runExclusive(ctx context.Context, busy *sync.Mutex, what string, do func() error) error {
	if s.store == nil {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STORE_OFF", Message: "this server has no store to ask"}
	}
	if !busy.TryLock() {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "STORE_BUSY", RetryAfter: int64(busyFor), Limit: 1,
			Message: what + " of the store is under way already",
		}
	}
	defer busy.Unlock()
	err := do()
	if refusal, ok := errors.AsType[*machine.Error](context.Cause(ctx)); ok && err != nil {
		return refusal
	}
	return err
}
