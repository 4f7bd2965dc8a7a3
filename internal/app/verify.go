package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
)

// Verified is what was proven of one run.
type Verified struct {
	RunID string
	machine.Proof
}

// VerifyData proves the journals in a data directory that nobody has open: of one
// run, or of all for "". Errors: [ErrUnusable], machine.ErrNoRun. What is wrong is
// in the proofs.
func VerifyData(ctx context.Context, data Data, run string) (found []Verified, err error) {
	s, err := openExisting(data, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.ProveAll(ctx, run, graphsOf(ctx, s), func(_ uint32, run string, proof machine.Proof) error {
		found = append(found, Verified{RunID: run, Proof: proof})
		return nil
	})
	return found, err
}

// VerifyFile proves a portable file without any store. Errors: *machine.Refusal for
// a file that is no intact export.
func VerifyFile(path string) (v Verified, err error) {
	file, err := os.Open(path)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	x, err := check.Unpack(file)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, check.Discard(x)) }()
	v.RunID = x.RunID
	loaded, found, err := pack.Load(x.Pack, pack.Options{Limits: pack.Limits{Bytes: checkedPackBytes}, Accepted: true})
	if err != nil {
		return v, err
	}
	if loaded == nil {
		return v, fmt.Errorf("the pack of %s has errors: %v", path, found)
	}
	entry := pack.Entry{Agent: x.Agent}
	if x.EntryOverride {
		entry.State = x.Entry
	}
	graph, err := loaded.Compile(entry)
	if err != nil {
		return v, fmt.Errorf("the pack of %s: %w", path, err)
	}
	v.Proof, err = check.ProveExport(x, graph)
	return v, err
}
