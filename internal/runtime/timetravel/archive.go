package timetravel

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Archive verifies the stored data of a run, and exports and imports runs as portable files. It is
// optional, because it needs access to the raw bytes of the store, which not every store offers.
type Archive interface {
	// Prove replays a run's journal and compares the result with the stored bytes. Faults that it finds
	// are in the proof. Error: [machine.ErrNoRun].
	Prove(ctx context.Context, ns uint32, run string, g *machine.Graph) (machine.Proof, error)
	// Export writes the portable file of a run. Error: [machine.ErrNoRun].
	Export(ctx context.Context, ns uint32, run string, out io.Writer) error
	// Unpack reads a portable file. The caller must pass the result to Discard when it no longer needs
	// it.
	Unpack(in io.Reader) (machine.Export, error)
	Discard(x machine.Export) error
	// Import verifies an unpacked file and stores its run, marked as imported. duplicate reports
	// whether the run was already imported from the same file.
	Import(ctx context.Context, ns uint32, x machine.Export, row machine.PackRow, g *machine.Graph, at int64) (st *machine.State, duplicate bool, err error)
}

// VerifyRun verifies the journal of a run (docs/reference/semantics.md §12): the hash chain over the
// stored bytes, and whether the inputs produce exactly the records and the state. It executes no tools
// or models. The proof contains the faults and the first bad record.
func (r *Service) VerifyRun(ctx context.Context, ref runtime.RunRef) (machine.Proof, error) {
	key, err := r.archivedRun(ref)
	if err != nil {
		return machine.Proof{}, err
	}
	// The cached state is not used here, because the stored state must be verified.
	head, err := r.cfg.Store.Head(ctx, key.Namespace, key.ID)
	if errors.Is(err, machine.ErrNoRun) {
		return machine.Proof{}, history.NotFoundError(err)
	}
	if err != nil {
		return machine.Proof{BadSeq: 1, Detail: "head: " + err.Error()}, nil
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, key.Namespace, head)
	if err != nil {
		return machine.Proof{}, err
	}
	return r.cfg.Archive.Prove(ctx, key.Namespace, key.ID, prog.Graph)
}

// ExportRun writes the portable file of a run in its present state. It requires the scope runs:read,
// because the file also contains the blobs that the run refers to.
func (r *Service) ExportRun(ctx context.Context, ref runtime.RunRef, out io.Writer) error {
	if err := policy.Require(ref.Principal, policy.RunsRead); err != nil {
		return runtime.PolicyError(err)
	}
	key, err := r.archivedRun(ref)
	if err != nil {
		return err
	}
	if _, err := r.cfg.Engine.Head(ctx, key); err != nil {
		return err
	}
	return r.cfg.Archive.Export(ctx, key.Namespace, key.ID, out)
}

func (r *Service) archivedRun(ref runtime.RunRef) (runtime.RunKey, error) {
	key, err := r.cfg.Engine.FindReadable(ref)
	if err == nil && r.cfg.Archive == nil {
		err = archiveOff()
	}
	return key, err
}

func archiveOff() error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "ARCHIVE_OFF", Message: "this sidecar's store proves and exports no runs",
	}
}

// ImportRun stores the run of a portable file. The run can be read, compared and forked, but it accepts
// no input (IMPORTED). duplicate reports whether the same file was already imported.
//
// Errors: PERMISSION_DENIED without the scope packs:write; INVALID_ARGUMENT EXPORT_INVALID or
// EXPORT_TRUNCATED; FAILED_PRECONDITION EXPORT_NEWER; RESOURCE_EXHAUSTED EXPORT_TOO_LARGE;
// ALREADY_EXISTS RUN_EXISTS. After one of these errors no data is stored.
func (r *Service) ImportRun(ctx context.Context, call runtime.Call, in io.Reader) (st *machine.State, duplicate bool, err error) {
	ns, err := r.cfg.Engine.Admit(call, policy.PacksWrite)
	if err != nil {
		return nil, false, err
	}
	if r.cfg.Archive == nil {
		return nil, false, archiveOff()
	}
	x, err := r.cfg.Archive.Unpack(in)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, r.cfg.Archive.Discard(x)) }()
	err = r.cfg.Engine.DoInFlight(func() error {
		at := r.cfg.Clock.Now().UnixNano()
		row, graph, err := r.unpackedPack(x, at)
		if err != nil {
			return err
		}
		// An import that has begun is completed, even if the caller has gone.
		st, duplicate, err = r.cfg.Archive.Import(context.WithoutCancel(ctx), ns, x, row, graph, at)
		return err
	})
	return st, duplicate, err
}

// unpackedPack reads the pack of an unpacked file and compiles it for the run.
func (r *Service) unpackedPack(x machine.Export, at int64) (machine.PackRow, *machine.Graph, error) {
	loaded, found, err := pack.Load(x.Pack, pack.Options{Limits: r.cfg.PackLimits, Accepted: true})
	if err != nil || loaded == nil {
		return machine.PackRow{}, nil, exportInvalid(fmt.Sprintf("its pack is not accepted: %v %v", found, err))
	}
	entry := pack.Entry{Agent: x.Agent}
	if x.EntryOverride {
		entry.State = x.Entry
	}
	graph, err := loaded.Compile(entry)
	if err != nil {
		return machine.PackRow{}, nil, exportInvalid("its pack has not the run's entry: " + err.Error())
	}
	return machine.PackRow{
		Digest: x.Digest, ID: loaded.Doc.ID, Version: loaded.Doc.Version, Canonical: x.Pack, RegisteredAt: at,
	}, graph, nil
}

func exportInvalid(message string) error {
	return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "EXPORT_INVALID", Field: "data", Message: message}
}
