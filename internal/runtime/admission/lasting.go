package admission

import (
	"context"
	"sync"
	"time"
)

// Lasting is a context whose call counts as one that waits ([OnWait]) once it lasts longer than
// after, whatever it is that it waits for: what a call waits for in another process is not told.
// over is called when it has its answer.
func Lasting(ctx context.Context, after time.Duration) (lasting context.Context, over func()) {
	begin, ok := ctx.Value(waitKey{}).(func() (func(), error))
	if !ok {
		return ctx, func() {}
	}
	l := &lasts{begin: begin}
	timer := time.AfterFunc(after, l.late)
	return OnWait(ctx, l.wait), func() { timer.Stop(); l.end() }
}

// lasts is a call that counts as waiting at most once at a time.
type lasts struct {
	begin func() (func(), error)
	mu    sync.Mutex
	// back is set while it counts as waiting.
	back func()
	over bool
}

// late is when the call has lasted. One for which there is no room to wait goes on as it is.
func (l *lasts) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.back != nil {
		return
	}
	if back, err := l.begin(); err == nil {
		l.back = back
	}
}

// wait is when it says that it waits.
func (l *lasts) wait() (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		return func() {}, nil
	}
	if l.back, err = l.begin(); err != nil {
		return nil, err
	}
	return l.through, nil
}

func (l *lasts) through() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		l.back()
		l.back = nil
	}
}

func (l *lasts) end() {
	l.through()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
