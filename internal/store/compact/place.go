package compact

import (
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/host"
	"github.com/pawl-dev/pawl/internal/store/inspect"
)

// Place is where a store is made anew.
type Place struct {
	// From is the directory of the store, Epoch its name; To is the new one.
	From, To string
	// Swap: it takes the old one's place, and To is a name of ours.
	Swap  bool
	Epoch [16]byte
	// Free tells the free bytes of a directory's file system, of which Spare are left alone.
	Free  func(dir string) (int64, error)
	Spare int64
}

// Clear empties the new directory, of what a call that was broken off left and of nothing
// else, and says what the store takes. Errors: *machine.Refusal DISK_LOW if there is no room
// for as much again.
func (p Place) Clear() (bytes int64, err error) {
	left, err := inspect.ReadAcked(p.To)
	if err != nil {
		return 0, err
	}
	if p.Swap && left != nil && left.Epoch == p.Epoch {
		// Both were whole then.
		if err := os.RemoveAll(p.To); err != nil {
			return 0, err
		}
	}
	tree, values, err := inspect.DiskBytes(p.From)
	if err != nil {
		return 0, err
	}
	free, err := p.Free(filepath.Dir(p.To))
	if need := tree + values + p.Spare; err == nil && free < need {
		err = &machine.Refusal{
			Code: machine.CodeResourceExhausted, Reason: host.DiskLow, Limit: need, Got: free,
			Message: "there is no room for a second copy of the store",
		}
	}
	if err == nil {
		err = inspect.ClearFor(p.To)
	}
	return tree + values, err
}

// Settle makes the new directory one like any other, with the files that lie beside the
// old store's, and lets it take the old one's place, if it is to, which is removed. It
// says what the new store takes.
func (p Place) Settle() (bytes int64, err error) {
	if err := inspect.CopyOthers(p.From, p.To); err != nil {
		return 0, err
	}
	if err := inspect.SettleIn(p.To); err != nil {
		return 0, err
	}
	tree, values, err := inspect.DiskBytes(p.To)
	if err != nil || !p.Swap {
		return tree + values, err
	}
	if err := Swap(p.From, p.To); err != nil {
		return 0, err
	}
	if err := inspect.SyncDir(filepath.Dir(p.From)); err != nil {
		return 0, err
	}
	return tree + values, os.RemoveAll(p.To)
}
