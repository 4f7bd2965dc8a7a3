package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
)

// Verified is the result of the verification of one run.
type Verified struct {
	RunID string
	machine.Proof
	// Part is the partition that has it.
	Part int32
}

// VerifyData checks the journals of the runs in a store. No other process may have the store open. If
// run is not "", it checks only this run. Errors: [ErrUnusable], machine.ErrNoRun. Faults of a journal
// are in its proof.
func VerifyData(ctx context.Context, data Data, run string) (found []Verified, err error) {
	err = data.eachPartition(ctx, func(part Data) error {
		one, err := verifyPart(ctx, part, run)
		found = append(found, one...)
		if errors.Is(err, machine.ErrNoRun) {
			// Another partition may have the run.
			err = nil
		}
		return err
	})
	if err == nil && len(found) == 0 && run != "" {
		err = machine.ErrNoRun
	}
	return found, err
}

func verifyPart(ctx context.Context, data Data, run string) (found []Verified, err error) {
	s, err := openExisting(data, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.ProveAll(ctx, run, graphsOf(ctx, s), func(_ uint32, run string, proof machine.Proof) error {
		found = append(found, Verified{RunID: run, Proof: proof, Part: data.Database.Part})
		return nil
	})
	return found, err
}

// VerifyFile checks a file with an exported run. It needs no store. If the file is not an intact export, the
// error is a *machine.Error. Faults of the journal are in the proof.
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
