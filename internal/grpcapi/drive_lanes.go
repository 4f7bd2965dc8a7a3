package grpcapi

import (
	"context"
	"sync"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/admission"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// driveWindow bounds the commands of one stream that are open, and driveBytes about
	// what their requests, and the answers that wait to be sent, hold together.
	driveWindow = 1024
	driveBytes  = 8 << 20
	// driveTurns bounds the GetTurns of one stream that are made at once: their answers
	// may be megabytes, of which nothing is held against driveBytes before they are made.
	driveTurns = 4
	// driveAnswer is what any other answer is taken for, bytes, until some were made.
	driveAnswer = 64 << 10
)

// lanes are the open commands of one stream. Those of one run wait behind each other,
// those of different runs are made side by side.
//
// A command is open from when it is read until its answer is about to be sent, and
// takes room until the answer was.
type lanes struct {
	// do makes a command and gives the bytes of its answer.
	do func(context.Context, *pawlv1.DriveCommand) []byte
	// hands gives commands to goroutines that have made others and whose stacks have
	// grown: a new one for each command would copy its stack on the way to the commit.
	hands chan command
	// turns has a token for each GetTurn that is being made.
	turns chan struct{}

	mu sync.Mutex
	// open has the ids of the open commands.
	open map[uint64]struct{}
	// taken counts the commands that take room, making those without an answer.
	taken, making int
	// waiting has, per run with a command that is being made, those behind it.
	waiting map[string][]command
	// answers wait to be sent and hold owed bytes; with the requests that have no answer
	// yet it is held.
	answers    []answered
	owed, held int64
	// begun commands, none a GetTurn, are being made; each is taken for about the widest
	// answer of late, so that all of them together find room when they are there.
	begun, widest int64
	// parked commands wait for the operator's limits.
	parked int
	// closed: nothing more is taken; quiet is closed once all that was is answered.
	closed bool
	quiet  chan struct{}
	// wake holds at most one token: there are answers. eased is closed, and made anew,
	// when answers were sent.
	wake, eased chan struct{}
}

// command is a request with the context that it is made in.
type command struct {
	ctx context.Context //nolint:containedctx // it waits for its turn, in a queue
	in  *pawlv1.DriveCommand
	run string
	// size is its share of its message, bytes.
	size int64
}

// answered is an answer on its way out, as the bytes of an element of
// DriveResponse.answers: who made the command encodes it, not the one who sends.
type answered struct {
	id   uint64
	wire []byte
}

func newLanes(do func(context.Context, *pawlv1.DriveCommand) []byte) *lanes {
	return &lanes{
		do: do, widest: driveAnswer, hands: make(chan command), turns: make(chan struct{}, driveTurns), open: map[uint64]struct{}{}, waiting: map[string][]command{},
		quiet: make(chan struct{}), wake: make(chan struct{}, 1), eased: make(chan struct{}),
	}
}

// duplicate finds an id that is none, that is open, or that is twice in a message.
func (l *lanes) duplicate(commands []*pawlv1.DriveCommand) (id uint64, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, in := range commands {
		id := in.GetId()
		if _, taken := l.open[id]; taken || id == 0 {
			for _, earlier := range commands[:i] {
				delete(l.open, earlier.GetId())
			}
			return id, true
		}
		l.open[id] = struct{}{}
	}
	return 0, false
}

// await waits until a condition, which is asked under the lock, holds; false: the
// context ended first.
func (l *lanes) await(ctx context.Context, holds func() bool) bool {
	for {
		l.mu.Lock()
		ok, eased := holds(), l.eased
		l.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-eased:
		case <-ctx.Done():
			return false
		}
	}
}

// admit waits until there is room for n commands; false: the context ended first.
func (l *lanes) admit(ctx context.Context, n int) bool {
	return l.await(ctx, func() bool { return l.taken+n <= driveWindow && l.held <= driveBytes })
}

// take begins to make commands that were admitted, in their order per run; they came
// in so many bytes.
func (l *lanes) take(ctx context.Context, commands []*pawlv1.DriveCommand, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, in := range commands {
		c := command{ctx, in, runOf(in), int64(bytes / len(commands))}
		l.taken, l.making, l.held = l.taken+1, l.making+1, l.held+c.size
		if behind, busy := l.waiting[c.run]; busy {
			l.waiting[c.run] = append(behind, c)
			continue
		}
		if c.run != "" {
			l.waiting[c.run] = nil
		}
		select {
		case l.hands <- c:
		default:
			go l.hand(c)
		}
	}
}

// hand makes commands until there are no more.
func (l *lanes) hand(c command) {
	for ok := true; ok; c, ok = <-l.hands {
		l.work(c)
	}
}

// dismiss ends the hands; nothing is taken any more.
func (l *lanes) dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.hands)
}

// work makes a command and those that come to wait behind it. While the client does
// not read its answers, nothing is made that would have one.
func (l *lanes) work(c command) {
	for ok := true; ok; {
		c, ok = l.one(c)
	}
}

// one makes and answers a command, and gives the next one of its run.
func (l *lanes) one(c command) (next command, ok bool) {
	if c.in.GetGetTurn() == nil {
		if !l.await(c.ctx, l.begin) {
			return l.answer(c, nil, false)
		}
		return l.answer(c, l.do(admission.OnWait(c.ctx, l.park), c.in), true)
	}
	select {
	case l.turns <- struct{}{}:
		// Only once its answer is counted may another be made.
		defer func() { <-l.turns }()
		if l.await(c.ctx, func() bool { return l.owed <= driveBytes }) {
			return l.answer(c, l.do(c.ctx, c.in), false)
		}
	case <-c.ctx.Done():
	}
	return l.answer(c, nil, false)
}

// park lets others have the room of a command that is about to wait for the operator's limits,
// until back. A stream's window is for those of other runs too: half of it may wait.
func (l *lanes) park() (back func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked >= driveWindow/2 {
		return nil, &machine.Refusal{
			Code: machine.CodeResourceExhausted, Reason: "LIMIT_QUEUE_FULL", Message: "too many calls of this stream wait for the operator's limits",
			Limit: driveWindow / 2, Got: int64(l.parked) + 1, RetryAfter: int64(time.Second),
		}
	}
	l.parked, l.begun = l.parked+1, l.begun-1
	l.ease()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.parked, l.begun = l.parked-1, l.begun+1
	}, nil
}

// ease wakes who waits for room.
func (l *lanes) ease() {
	close(l.eased)
	l.eased = make(chan struct{})
}

// begin reserves room for an answer; false: there is none until answers were sent.
func (l *lanes) begin() bool {
	if l.owed+l.begun*l.widest > driveBytes {
		return false
	}
	l.begun++
	return true
}

// answer queues the answer to a command, nil for one that nobody waits for, and gives
// the next command of the run; began: room was reserved for it.
func (l *lanes) answer(c command, answer []byte, began bool) (next command, ok bool) {
	size := int64(len(answer))
	l.mu.Lock()
	defer l.mu.Unlock()
	if began {
		l.begun--
		l.widest = max(size, l.widest-l.widest/16)
	}
	l.making--
	l.owed += size
	l.held += size - c.size
	l.answers = append(l.answers, answered{c.in.GetId(), answer})
	l.rest()
	signal(l.wake)
	if behind := l.waiting[c.run]; len(behind) > 0 {
		l.waiting[c.run] = behind[1:]
		return behind[0], true
	}
	delete(l.waiting, c.run)
	return command{}, false
}

// close says that nothing more is taken.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.rest()
}

// rest tells who waits for it that all commands are answered.
func (l *lanes) rest() {
	if l.closed && l.making == 0 {
		close(l.quiet)
	}
}

// unsent takes the answers that wait. Their ids are free from then on: the client may
// use them again as soon as it reads them.
func (l *lanes) unsent() []answered {
	l.mu.Lock()
	defer l.mu.Unlock()
	answers := l.answers
	l.answers = nil
	for _, a := range answers {
		delete(l.open, a.id)
	}
	return answers
}

// sent makes room in the place of commands whose answers were sent.
func (l *lanes) sent(answers []answered) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range answers {
		l.taken--
		l.owed -= int64(len(a.wire))
		l.held -= int64(len(a.wire))
	}
	l.ease()
}

// signal leaves a token for whoever waits.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
