package badgerengine

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Logger passes Badger's messages to slog. It also finds failures in them: Badger reports a failed sync
// of the value log only in its log, and the commit itself returns no error, although its large values
// may be lost. Therefore the Badger engine checks [Logger.Failure] after each commit.
//
// The logger is also the only place at which a compaction can be delayed, because Badger logs a message
// before it writes each table.
type Logger struct {
	Log *slog.Logger
	// AwaitSpace waits until the disk has space for a table. If it is nil, compactions do not wait.
	AwaitSpace func()
	// Unflushed receives an error if a memtable could not be flushed. If the channel is full or nil,
	// the error is dropped. Badger retries the flush forever, even while it closes.
	Unflushed  chan error
	syncFailed atomic.Pointer[string]
}

// unflushed is the beginning of the message that Badger logs when a flush of a memtable fails.
const unflushed = "error flushing memtable to disk"

// beforeTable is the beginning of the message that Badger logs when a compaction has collected the
// contents of a table and is about to write the table.
const beforeTable = "[%d] LOG Compact. Added"

// Errorf logs an error of Badger. It remembers the first failed sync, and sends a failed flush to Unflushed.
// About a value that cannot be read, it logs one line without the key.
func (l *Logger) Errorf(format string, args ...any) {
	// Badger logs this message if it cannot read a value, with the key as decimal bytes, and then one
	// line for each version of the value.
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

// Warningf logs a warning of Badger.
func (l *Logger) Warningf(format string, args ...any) {
	l.Log.Warn("badger: " + message(format, args))
}

// Infof logs a message of Badger at the level debug. The message is for developers of the store.
func (l *Logger) Infof(format string, args ...any) {
	l.Log.Debug("badger: " + message(format, args))
}

// Debugf logs nothing, because Badger writes several debug messages for each commit. Before Badger
// writes a table in a compaction, Debugf waits for disk space.
func (l *Logger) Debugf(format string, _ ...any) {
	if l.AwaitSpace != nil && strings.HasPrefix(format, beforeTable) {
		l.AwaitSpace()
	}
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}

// Failure returns the failed sync that Badger reported only in its log, or nil if there was none.
func (l *Logger) Failure() error {
	if msg := l.syncFailed.Load(); msg != nil {
		return fmt.Errorf("badger: %s", *msg)
	}
	return nil
}
