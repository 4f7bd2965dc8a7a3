package diskspace

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Logger hands Badger's messages to slog. Badger reports a failed sync of the
// value log only here: the commit itself returns without error, although its
// large values may be lost. The committer therefore asks syncFailed before it
// answers a group.
//
// The logger is also the one place where a compaction can be held: Badger calls
// it before it writes each table.
type Logger struct {
	Log *slog.Logger
	// AwaitSpace returns when the disk has space for a table; nil = no wait.
	AwaitSpace func()
	// Unflushed gets the message that a memtable could not be flushed, unless the channel is
	// full; nil = the message is dropped. Badger retries the flush for ever, also while it
	// closes.
	Unflushed  chan error
	syncFailed atomic.Pointer[string]
}

// unflushed begins that message.
const unflushed = "error flushing memtable to disk"

// beforeTable begins the message that Badger logs when it has collected a table
// and is about to write it.
const beforeTable = "[%d] LOG Compact. Added"

// Errorf takes an error of Badger, which may be one that no call returns.
func (l *Logger) Errorf(format string, args ...any) {
	// Of a value that it cannot read Badger says this, with the key in decimal bytes,
	// and then one line for each version.
	switch {
	case strings.HasPrefix(format, "Unable to read: Key"):
		l.damagedValue(args)
		return
	case strings.HasPrefix(format, "Key: %v, Version"):
		return
	}
	msg := message(format, args)
	if strings.HasPrefix(format, unflushed) {
		select {
		case l.Unflushed <- fmt.Errorf("badger: %s", msg):
		default:
		}
	}
	if strings.Contains(msg, "sync") {
		l.syncFailed.CompareAndSwap(nil, &msg)
	}
	l.Log.Error("badger: " + msg)
}

func (l *Logger) damagedValue(args []any) {
	kind, cause := "", any(nil)
	if len(args) > 0 {
		cause = args[len(args)-1]
		if key, ok := args[0].([]byte); ok {
			kind = layout.RowName(key)
		}
	}
	l.Log.Error("stored value damaged or missing", "row", kind, "error", cause)
}

// Warningf takes a warning of Badger.
func (l *Logger) Warningf(format string, args ...any) {
	l.Log.Warn("badger: " + message(format, args))
}

// Infof is for developers of the store.
func (l *Logger) Infof(format string, args ...any) {
	l.Log.Debug("badger: " + message(format, args))
}

// Debugf drops the message: there are several for each commit.
func (l *Logger) Debugf(format string, _ ...any) {
	if l.AwaitSpace != nil && strings.HasPrefix(format, beforeTable) {
		l.AwaitSpace()
	}
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}

// Failure is the sync error that Badger swallowed, nil if there was none.
func (l *Logger) Failure() error {
	if msg := l.syncFailed.Load(); msg != nil {
		return fmt.Errorf("badger: %s", *msg)
	}
	return nil
}
