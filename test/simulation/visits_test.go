//go:build sim

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// visits are the calls of people over the network, about one store, through any member of a cluster.
type visits struct {
	mu sync.Mutex
	// asked are calls with an id, which are repeated at other members.
	asked []*visit
	// runs are the runs that answers named. shown is the newest record of each run that a caller has
	// received.
	runs  []string
	shown map[string]uint64
	ids   int
	// followers read everything through one member each.
	followers []*follower
	messages  messages
}

// visit is a call with an id.
type visit struct {
	name string
	do   func(ctx context.Context, runs pawlv1.RunServiceClient) (answer, error)
	// first is its first answer.
	first *answer
}

// answer is what a call returned about a run.
type answer struct {
	run string
	seq uint64
	// record is the record that the call made. 0 means that it made none.
	record uint64
}

func newVisits() *visits {
	return &visits{shown: map[string]uint64{}, messages: messages{told: map[string]uint64{}, refused: map[string]string{}}}
}

// id returns a new id.
func (v *visits) id() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ids++
	return fmt.Sprintf("visit-%d", v.ids)
}

// recent returns one of the newest runs. "" means that there is none.
func (v *visits) recent(dice *rand.Rand) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.runs) == 0 {
		return ""
	}
	return v.runs[max(0, len(v.runs)-1-dice.IntN(4))]
}

// visit makes a random call to a member.
func (n *node) visit(m *member, dice *rand.Rand) {
	v := n.visits
	id, run := v.id(), v.recent(dice)
	v.mu.Lock()
	var old *visit
	if len(v.asked) > 0 {
		old = v.asked[max(0, len(v.asked)-1-dice.IntN(8))]
	}
	v.mu.Unlock()
	what := dice.IntN(12)
	switch {
	case run == "" || what < 2:
		n.ask(m, n.startVisit(id, dice))
	case what < 5:
		n.ask(m, n.emitVisit(id, run, dice))
	case what < 7:
		n.ask(m, n.inputVisit(id, run))
	case what == 7:
		n.once(m, id, run)
	case what == 8:
		n.await(m, run)
	case what == 9 && old != nil:
		n.ask(m, old)
	default:
		n.see(m, run)
	}
}

func (n *node) startVisit(id string, dice *rand.Rand) *visit {
	execution := pick(dice, pawlv1.Execution_EXECUTION_WORKERS, pawlv1.Execution_EXECUTION_CALLER, pawlv1.Execution_EXECUTION_SIDECAR)
	return &visit{name: "start " + id, do: func(ctx context.Context, runs pawlv1.RunServiceClient) (answer, error) {
		got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Namespace: n.space, Pack: "sim", RequestId: id, Execution: execution, Input: textParts(id)})
		return answer{run: got.GetRun().GetRunId(), seq: got.GetRun().GetSeq(), record: got.GetRecord().GetSeq()}, err
	}}
}

func (n *node) emitVisit(id, run string, dice *rand.Rand) *visit {
	// Only approvers may send the other events.
	event := pick(dice, "Taken", "Round", "Closed", "Again")
	return &visit{name: "emit " + id, do: func(ctx context.Context, runs pawlv1.RunServiceClient) (answer, error) {
		got, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{Namespace: n.space, RunId: run, Event: event, EventId: id})
		return answer{run: run, seq: got.GetSeq(), record: got.GetTransition().GetSeq()}, err
	}}
}

func (n *node) inputVisit(id, run string) *visit {
	return &visit{name: "input " + id, do: func(ctx context.Context, runs pawlv1.RunServiceClient) (answer, error) {
		got, err := runs.SendInput(ctx, &pawlv1.SendInputRequest{Namespace: n.space, RunId: run, Parts: textParts(id), MessageId: id})
		return answer{run: run, seq: got.GetSeq(), record: got.GetRecord().GetSeq()}, err
	}}
}

func textParts(text string) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}
}

// reach makes a call to a member in its own goroutine. A call that finds no process gets no answer.
func (n *node) reach(m *member, name string, do func(ctx context.Context) error) {
	w := n.world
	w.people.calls++
	w.people.busy.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := do(ctx)
		w.note("%s of %s at %s: %s", name, n.name, m.name, reasonOfStatus(err))
		n.judge(name, err)
	})
}

// ask makes a call with an id. Its repeats must have the first answer.
func (n *node) ask(m *member, v *visit) {
	n.visits.mu.Lock()
	if v.first == nil {
		n.visits.asked = append(n.visits.asked, v)
	}
	n.visits.mu.Unlock()
	n.reach(m, v.name, func(ctx context.Context) error {
		got, err := v.do(ctx, m.runs)
		if err == nil {
			n.answered(v, &got)
		}
		return err
	})
}

func (n *node) answered(v *visit, got *answer) {
	n.visits.mu.Lock()
	if v.first == nil {
		v.first = got
		if strings.HasPrefix(v.name, "start") {
			n.visits.runs = append(n.visits.runs, got.run)
			n.world.people.runs[n] = append(n.world.people.runs[n], got.run)
		}
	}
	first := *v.first
	n.visits.mu.Unlock()
	if gone := n.world.oracle(n).deleting[first.run]; !gone && (first.run != got.run || first.record != got.record) {
		n.world.fail("an id has one answer", "%s was answered with record %d of %s, and with record %d of %s", v.name, first.record, first.run, got.record, got.run)
	}
	n.learn(got.run, got.seq)
}

// learn records the newest record of a run that a caller has received.
func (n *node) learn(run string, seq uint64) {
	n.visits.mu.Lock()
	defer n.visits.mu.Unlock()
	n.visits.shown[run] = max(n.visits.shown[run], seq)
}

// known returns the newest record of a run that a caller has received.
func (n *node) known(run string) uint64 {
	n.visits.mu.Lock()
	defer n.visits.mu.Unlock()
	return n.visits.shown[run]
}

// once makes a call without an id. It must have at most one effect, even if it fails or its answer is
// lost.
func (n *node) once(m *member, id, run string) {
	n.reach(m, "once "+id, func(ctx context.Context) error {
		got, err := m.runs.SendInput(ctx, &pawlv1.SendInputRequest{Namespace: n.space, RunId: run, Parts: textParts(nameless + id)})
		if err == nil {
			n.learn(run, got.GetSeq())
		}
		return err
	})
}

// nameless begins the text of inputs and messages without an id.
const nameless = "nameless "

// see reads a run, and checks that the answer is not older than any answer before the call.
func (n *node) see(m *member, run string) {
	floor := n.known(run)
	n.reach(m, "see "+short(run), func(ctx context.Context) error {
		got, err := m.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: n.space, RunId: run})
		if err == nil {
			n.newest(m, run, floor, got.GetRun().GetSeq())
		}
		return err
	})
}

// await waits for the end of a run.
func (n *node) await(m *member, run string) {
	floor := n.known(run)
	n.reach(m, "await "+short(run), func(ctx context.Context) error {
		got, err := m.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{Namespace: n.space, RunId: run, Timeout: durationpb.New(3 * time.Second)})
		if err == nil {
			n.newest(m, run, floor, got.GetRun().GetSeq())
		}
		return err
	})
}

func (n *node) newest(m *member, run string, floor, seq uint64) {
	if seq < floor {
		n.world.fail("nobody reads what is past", "%s shows run %s at %d, and somebody was told of %d", m.name, run, seq, floor)
	}
	n.learn(run, seq)
}

// judge reports errors that no call over the network may have.
func (n *node) judge(name string, err error) {
	if err == nil {
		return
	}
	switch code, reason := status.Code(err), reasonOfStatus(err); {
	case reason == "NOT_OWNER" || reason == "PEER_UNKNOWN" || reason == "CONNECTION_BROKEN":
		n.world.fail("NOT_OWNER reaches no caller", "%s: %v", name, err)
	case reason == "NAMESPACE_NOT_FOUND" || reason == "BAD_PEER_CALL":
		n.world.fail("what is served is known", "%s: %v", name, err)
	case code == codes.Internal || code == codes.DataLoss || code == codes.Unknown || code == codes.Unimplemented:
		n.world.fail("no internal errors", "%s: %v", name, err)
	}
}

// reasonOfStatus returns the reason that an error names. If there is none, it returns the text of the error.
func reasonOfStatus(err error) string {
	if err == nil {
		return "ok"
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return status.Code(err).String()
}

// owns checks that no answer to a client reveals which node owns the store.
func (n *node) owns(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if reasonOfStatus(err) == "NOT_OWNER" {
		n.world.fail("NOT_OWNER reaches no caller", "%s: %v", method, err)
	}
	return err
}

// followed starts followers that read everything through each member. One additional follower has a name.
func (n *node) followed() {
	if n.cluster == nil {
		return
	}
	for i, m := range n.cluster.members {
		n.visits.followers = append(n.visits.followers, &follower{node: n, m: m, name: "f" + m.name + n.space})
		if i == 0 {
			n.visits.followers = append(n.visits.followers, &follower{node: n, m: m, name: "named" + n.space, named: true})
		}
	}
	for _, f := range n.visits.followers {
		n.world.busy.Go(f.run)
	}
}

// follower reads the stream of all records through one member. It reconnects only when the stream has
// ended.
type follower struct {
	node   *node
	m      *member
	name   string
	named  bool
	cursor string
	got    []place
	has    map[place]int
	// acked is how many of the received records were certainly acknowledged.
	acked   int
	resumed bool
	streams int
}

func (f *follower) run() {
	w := f.node.world
	f.has = map[place]int{}
	for {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			select {
			case <-w.over:
				cancel()
			case <-ctx.Done():
			}
		}()
		err := f.read(ctx)
		over := ctx.Err() != nil
		cancel()
		if over {
			return
		}
		w.note("%s: the stream ends: %s", f.name, reasonOfStatus(err))
		f.node.judge("stream of "+f.name, err)
		select {
		case <-w.over:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (f *follower) read(ctx context.Context) error {
	req := &pawlv1.StreamTransitionsRequest{Namespace: f.node.space, Kinds: wireKinds, Follow: true, AfterCursor: f.cursor}
	if f.named {
		req.Consumer, req.AfterCursor = f.name, ""
	}
	f.resumed = f.named
	stream, err := f.m.runs.StreamTransitions(ctx, req)
	if err != nil {
		return err
	}
	f.streams++
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		if r := in.GetRecord(); r != nil {
			f.take(r)
			f.acknowledge(ctx, r)
		}
		if beat := in.GetHeartbeat(); beat != nil && !f.named {
			f.cursor = beat.GetCursor()
		}
	}
}

// take records a received record. A stream must send each record only once.
func (f *follower) take(r *pawlv1.Record) {
	at, w := place{run: r.GetRunId(), seq: r.GetSeq()}, f.node.world
	if f.resumed {
		f.goOn(at)
	}
	if _, again := f.has[at]; again {
		w.fail("a stream tells each record once", "%s is told record %d of %s again", f.name, at.seq, at.run)
	}
	f.has[at] = len(f.got)
	f.got = append(f.got, at)
	f.cursor = r.GetCursor()
	f.node.learn(at.run, at.seq)
}

// goOn forgets the records that the stream sends again to a named follower after the follower's last
// acknowledgement.
func (f *follower) goOn(from place) {
	f.resumed = false
	i, known := f.has[from]
	if !known {
		i = len(f.got)
	}
	if i < f.acked {
		f.node.world.fail("what was acknowledged is not told again", "%s has acknowledged %d records and is told the %dth", f.name, f.acked, i+1)
	}
	for _, at := range f.got[i:] {
		delete(f.has, at)
	}
	f.got = f.got[:i]
}

// acknowledge sometimes acknowledges the position of a named follower.
func (f *follower) acknowledge(ctx context.Context, r *pawlv1.Record) {
	if !f.named || len(f.got)%3 > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := pawlv1.NewDeliveryServiceClient(f.m.calls).AckConsumer(ctx, &pawlv1.AckConsumerRequest{Namespace: f.node.space, Consumer: f.name, Cursor: r.GetCursor()})
	f.node.judge("ack of "+f.name, err)
	if err == nil {
		f.acked = len(f.got)
	}
}

// final compares what callers received over the wire with the journal.
func (n *node) final(o *oracle) {
	for _, f := range n.visits.followers {
		r := &reader{world: o.world, node: n, name: fmt.Sprintf("%s (%d streams)", f.name, f.streams)}
		for _, at := range f.got {
			r.got = append(r.got, read{place: at})
		}
		r.complete(o)
	}
	taken := map[string]place{}
	for i := range o.journal {
		n.nameless(&o.journal[i], taken)
	}
	n.judgeMessages(taken)
	for run, seq := range n.visits.shown {
		if s := o.states[run]; !o.deleting[run] && (s == nil || s.Seq < seq) {
			n.world.fail("what was acknowledged is there", "somebody was told of record %d of %s", seq, run)
		}
	}
	n.world.note("%s: nobody had the store for %v at most", n.name, n.gap.longest)
}

// nameless checks that an input without an id was accepted at most once.
func (n *node) nameless(e *machine.Entry, taken map[string]place) {
	text, at := saidIn(e.Input.Command), place{run: e.RunID, seq: e.First}
	if text == "" {
		return
	}
	if before, again := taken[text]; again {
		n.world.fail("a call takes effect once", "%s in record %d of %s and in record %d of %s", text, before.seq, before.run, at.seq, at.run)
	}
	taken[text] = at
}

// wireKinds are all kinds of records.
var wireKinds = func() (kinds []pawlv1.RecordKind) {
	for k := range int32(64) {
		if k > 0 && pawlv1.RecordKind_name[k] != "" {
			kinds = append(kinds, pawlv1.RecordKind(k))
		}
	}
	return kinds
}()
