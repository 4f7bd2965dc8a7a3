package badgerkv

import (
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/pawl-dev/pawl/internal/store/diskspace"
)

// Options configure a database. All fields except EncryptionKey are required.
type Options struct {
	Dir           string
	Log           *diskspace.Logger
	EncryptionKey []byte
	DataKeyAge    time.Duration
	// MemTableSize is the size of the memtable in bytes. Badger accepts 15 % of it in one transaction.
	// This limits the size of a group.
	MemTableSize           int64
	BlockCache, IndexCache int64
}

// Apart is the size in bytes above which a value is stored in the value log. Compactions do not copy
// values of the value log.
const Apart = 16 << 10

// badger returns Badger's options. The reasons are in docs/dev/adr/0004-badger-options.md.
func (o Options) badger() badger.Options {
	return badger.DefaultOptions(o.Dir).
		WithLogger(o.Log).
		WithEncryptionKey(o.EncryptionKey).
		WithEncryptionKeyRotationDuration(o.DataKeyAge).
		WithSyncWrites(true).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithBypassLockGuard(true).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithNumMemtables(2).
		WithMemTableSize(o.MemTableSize).
		WithBlockCacheSize(o.BlockCache).
		WithIndexCacheSize(o.IndexCache).
		WithValueLogFileSize(64 << 20).
		WithValueThreshold(Apart).
		WithCompression(options.Snappy).
		WithNumCompactors(2)
}
