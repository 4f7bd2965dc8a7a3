package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// storeAdmin executes the calls that concern a whole partition: backup, check and statistics. A serving
// sidecar executes checks and statistics with limited speed. Commands use storeAdmin when no other process
// has the store open.
type storeAdmin struct {
	store *store.Store
	// part is the number of the partition that storeAdmin works on.
	part int32
	// limited limits the speed of checks and statistics, because the sidecar serves other calls at the
	// same time.
	limited bool
}

// Partition implements grpcapi.StoreBackend.
func (d *storeAdmin) Partition() uint32 { return uint32(d.part) }

// Backup implements grpcapi.StoreBackend.
func (d *storeAdmin) Backup(ctx context.Context, after string, out io.Writer) error {
	_, err := d.store.Backup(ctx, after, time.Now().UnixNano(), out)
	if errors.Is(err, backup.ErrForeign) {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "BACKUP_FOREIGN", Field: "after", Message: err.Error()}
	}
	return err
}

// progressEvery is the interval at which the check of a store reports its progress.
const progressEvery = time.Second

// Check implements grpcapi.StoreBackend.
func (d *storeAdmin) Check(ctx context.Context, progress func(*pawlv1.CheckCounts) error) (*pawlv1.CheckCounts, *pawlv1.CheckFault, error) {
	pace, told := d.pace(ctx), time.Now()
	report, err := d.store.CheckWatched(graphsOf(ctx, d.store), func(soFar *check.Report) error {
		if err := pace(); err != nil || time.Since(told) < progressEvery {
			return err
		}
		told = time.Now()
		return progress(countsToProto(soFar))
	})
	if fault, ok := errors.AsType[*check.Fault](err); ok {
		return nil, faultToProto(fault, d.Partition()), nil
	}
	return countsToProto(&report), nil, err
}

// Stats implements grpcapi.StoreBackend.
func (d *storeAdmin) Stats(ctx context.Context) (*pawlv1.StoreStats, error) {
	stats, err := d.store.Measure(d.pace(ctx))
	if err != nil {
		return nil, err
	}
	out := statsToProto(&stats, d.Partition())
	if dsn.IsURL(d.store.Dir()) {
		tree, values := d.store.Sizes()
		out.TreeBytes, out.ValueLogBytes = tree, values
		return out, nil
	}
	out.TreeBytes, out.ValueLogBytes, err = datadir.DiskBytes(d.store.Dir())
	return out, err
}

// slice is how long a check or measurement with limited speed works before it pauses for the same time.
const slice = 10 * time.Millisecond

// pace returns a function that limits the speed of a check or measurement. It must be called for each
// row that is read. It returns an error when ctx has ended.
func (d *storeAdmin) pace(ctx context.Context) func() error {
	if !d.limited {
		return ctx.Err
	}
	begun := time.Now()
	return func() error {
		worked := time.Since(begun)
		if worked < slice {
			return ctx.Err()
		}
		rest := time.NewTimer(worked)
		defer rest.Stop()
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
		begun = time.Now()
		return ctx.Err()
	}
}

func countsToProto(r *check.Report) *pawlv1.CheckCounts {
	return &pawlv1.CheckCounts{
		Runs: r.Runs, Entries: r.Entries, Records: r.Records, Checkpoints: r.Checkpoints, Artifacts: r.Artifacts, Messages: r.Messages, Ids: r.IDs,
		Timers: r.Timers, Outbox: r.Outbox, Ready: r.Ready, Indexes: r.Indexes, Packs: r.Packs, Deleted: r.Deleted,
	}
}

// CheckReportOf converts the counts of a check from the form in which a sidecar sends them to a
// CheckReport.
func CheckReportOf(c *pawlv1.CheckCounts) CheckReport {
	return CheckReport{
		Runs: c.GetRuns(), Entries: c.GetEntries(), Records: c.GetRecords(), Checkpoints: c.GetCheckpoints(), Artifacts: c.GetArtifacts(), Messages: c.GetMessages(), IDs: c.GetIds(),
		Timers: c.GetTimers(), Outbox: c.GetOutbox(), Ready: c.GetReady(), Indexes: c.GetIndexes(), Packs: c.GetPacks(), Deleted: c.GetDeleted(),
	}
}

func faultToProto(f *check.Fault, partition uint32) *pawlv1.CheckFault {
	return &pawlv1.CheckFault{Partition: partition, NamespaceNumber: f.Namespace, RunId: f.Run, Seq: f.Seq, Row: f.Row, Detail: f.Detail}
}

// CheckFaultOf converts the fault of a check from the form in which a sidecar sends it to a CheckFault.
func CheckFaultOf(f *pawlv1.CheckFault) *CheckFault {
	return &CheckFault{Namespace: f.GetNamespaceNumber(), Run: f.GetRunId(), Seq: f.GetSeq(), Row: f.GetRow(), Detail: f.GetDetail()}
}

// StatsOf counts the contents of a store in all partitions. No other process may have the store open.
// Errors: [ErrUnusable].
func StatsOf(ctx context.Context, data Data) (*pawlv1.StoreStats, error) {
	all := &pawlv1.StoreStats{}
	err := data.eachPartition(ctx, func(part Data) error {
		one, err := statsPart(ctx, part)
		if err == nil {
			router.AddStats(all, one)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func statsPart(ctx context.Context, data Data) (out *pawlv1.StoreStats, err error) {
	s, err := openExisting(data, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return (&storeAdmin{store: s, part: data.Database.Part}).Stats(ctx)
}

func statsToProto(s *store.ContentStats, partition uint32) *pawlv1.StoreStats {
	out := &pawlv1.StoreStats{Shared: rowsToProto(s.Shared)}
	for _, space := range s.Namespaces {
		one := spaceToProto(space)
		one.Partition = partition
		out.Namespaces = append(out.Namespaces, one)
	}
	return out
}

// spaceToProto converts the statistics of a namespace.
func spaceToProto(s *store.NamespaceStats) *pawlv1.NamespaceStats {
	out := &pawlv1.NamespaceStats{
		Name: s.Name, Number: s.Number, Entries: s.Entries, Records: s.Records, DeletedRuns: s.Deleted, Blobs: s.Blobs,
		Consumers: s.Consumers, Webhooks: s.Webhooks, PushConfigs: s.Pushes, DeadLetters: s.DeadLetters, Rows: rowsToProto(s.Rows),
	}
	if s.Number == 0 {
		out.Name = runtime.DefaultNamespace
	}
	if s.Oldest != 0 {
		out.OldestRun, out.NewestRun = timestamppb.New(time.Unix(0, s.Oldest)), timestamppb.New(time.Unix(0, s.Newest))
	}
	for n := int32(1); n < int32(len(pawlv1.RunStatus_name)); n++ {
		status := pawlv1.RunStatus(n)
		out.Runs = append(out.Runs, &pawlv1.StatusCount{Status: status, Runs: s.Runs[strings.TrimPrefix(status.String(), "RUN_STATUS_")]})
	}
	return out
}

func rowsToProto(rows []*store.RowStats) []*pawlv1.RowStats {
	out := make([]*pawlv1.RowStats, len(rows))
	for i, r := range rows {
		out[i] = &pawlv1.RowStats{Kind: r.Kind, Rows: r.Rows, KeyBytes: r.Keys, ValueBytes: r.Values}
	}
	return out
}
