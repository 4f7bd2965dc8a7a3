//go:build sim

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// workman is a worker's process: the real Go client over a connection that is sometimes cut. What it
// does with a turn depends only on the turn, so that a second delivery has the same result.
type workman struct {
	world *world
	node  *node
	name  string
	// mu is held while the process is ended and started again, because two actions may restart it at the same
	// time. left means that it stays ended.
	mu   sync.Mutex
	left bool
	conn *grpc.ClientConn
	halt context.CancelFunc
	done chan struct{}
}

func newWorkman(w *world, n *node, name string) *workman {
	return &workman{world: w, node: n, name: name}
}

// start begins a new process under the same name.
func (m *workman) start() {
	conn, err := m.node.dial()
	if err != nil {
		m.world.fail("dial", "%v", err)
		return
	}
	turns := map[string]pawl.TurnFunc{"*": m.turn}
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: conn, ID: m.name, Prompts: turns, Agents: turns, Tools: m.tools(),
		Turns: 4, Steps: 3, Grace: time.Millisecond,
	})
	if err != nil {
		m.world.fail("worker", "%v", err)
		return
	}
	var ctx context.Context
	ctx, m.halt = context.WithCancel(context.Background())
	// Another start may come before the goroutine runs.
	done := make(chan struct{})
	m.conn, m.done = conn, done
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			m.world.fail("workers are taken", "%s: %v", m.name, err)
		}
	}()
}

// tools returns the tools that the worker executes.
func (m *workman) tools() map[string]pawl.ToolFunc {
	all := map[string]pawl.ToolFunc{"charge": m.world.tools.charge, "buy": m.sell, "pay": m.sell, "refund": m.sell}
	m.world.bookings.tools(m.node, all)
	return all
}

// restart kills the process and starts another one.
func (m *workman) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.left {
		m.kill()
		m.start()
	}
}

// stop ends the process for good.
func (m *workman) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	m.kill()
}

// kill ends the process without a notice to the sidecar.
func (m *workman) kill() {
	m.halt()
	_ = m.conn.Close()
	<-m.done
}

// turn executes a turn.
func (m *workman) turn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	a := t.Assignment
	lease, turn := a.GetLease(), a.GetTurn()
	dice := diceOf(lease.GetRunId(), lease.GetTurnSeq(), uint64(lease.GetAttempt()))
	m.world.note("%s has turn %d.%d.%d of %s", m.name, lease.GetTurnSeq(), lease.GetAttempt(), lease.GetDelivery(), short(lease.GetRunId()))
	usage := &pawlv1.Usage{InputTokens: int64(dice.IntN(30)), Model: modelName}
	if sells[turn.GetPrompt()] {
		usage = nil // the run has no reservation for it
	}
	if diceOf(lease.GetRunId(), lease.GetTurnSeq(), 2).IntN(3) == 0 {
		return m.talk(ctx, t, dice)
	}
	if m.world.healing {
		return m.best(turn, usage), nil
	}
	if err := pause(ctx, time.Duration(dice.IntN(1500))*time.Millisecond); err != nil {
		return pawl.Completion{}, err
	}
	what := dice.IntN(10)
	if what > 1 && sells[turn.GetPrompt()] {
		return m.shop(ctx, t, dice)
	}
	switch what {
	case 0:
		return pawl.Completion{}, fmt.Errorf("attempt %d fails", lease.GetAttempt())
	case 1:
		if err := pause(ctx, 8*time.Second); err != nil {
			return pawl.Completion{}, err
		}
	case 2, 3, 4:
		if turn.GetPrompt() == "lead" && !turn.GetTerminal() {
			_, _ = t.Step(ctx, "c", "charge", `{}`)
			_, _ = t.Step(ctx, "b", "book", seatOf(dice))
		}
	case 5, 6:
		if turn.GetPrompt() == "lead" && !turn.GetTerminal() {
			_, _ = t.Step(ctx, "h", "helper", letterOf(dice, fmt.Sprintf("help %d", lease.GetTurnSeq())))
		}
	case 7:
		if turn.GetPrompt() == "lead" && !turn.GetTerminal() {
			_, _ = t.Step(ctx, "t", "teller", `{"message": "may I?"}`)
		}
	}
	if ctx.Err() != nil {
		return pawl.Completion{}, ctx.Err()
	}
	return pawl.Completion{Event: m.event(turn, dice), Usage: usage, Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "done"}}}}, nil
}

// talk executes a turn with a model.
func (m *workman) talk(ctx context.Context, t *pawl.Turn, dice *rand.Rand) (pawl.Completion, error) {
	a := t.Assignment
	// Each delivery acts differently. Only the record makes them one execution.
	own := diceOf(a.GetLease().GetRunId(), dice.Uint64(), uint64(a.GetLease().GetDelivery()))
	c := newConversation(m.world, m.node, byStream{t, m.node.runs}, a.GetLease().GetRunId(), a.GetTurn(), own)
	answer, err := c.hold(ctx)
	m.world.judged("a turn with a model", err)
	if err != nil {
		return pawl.Completion{}, err
	}
	done := pawl.Completion{Event: m.event(a.GetTurn(), own), Output: answer.GetParts(), ConversationThroughStep: c.last}
	if m.world.healing {
		done.Event = m.best(a.GetTurn(), nil).Event
	}
	return done, nil
}

// event returns one of the events with which the turn may end, or "".
func (m *workman) event(turn *pawlv1.GetTurnResponse, dice *rand.Rand) string {
	events := turn.GetAllowedEvents()
	if len(events) == 0 || dice.IntN(12) == 0 {
		return ""
	}
	return events[dice.IntN(len(events))]
}

// best returns the completion that ends a run soonest.
func (m *workman) best(turn *pawlv1.GetTurnResponse, usage *pawlv1.Usage) pawl.Completion {
	done := pawl.Completion{Usage: usage, Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "done"}}}}
	for _, event := range turn.GetAllowedEvents() {
		if event == "Finish" || event == "Closed" {
			done.Event = event
		}
	}
	return done
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// diceOf returns a random generator that is the same for the same piece of work.
func diceOf(run string, n ...uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(run))
	sum := h.Sum64()
	for _, x := range n {
		sum = sum*31 + x
	}
	return rand.New(rand.NewPCG(sum, 1))
}

func short(run string) string { return run[max(0, len(run)-4):] }

// tools are the tools outside of the sidecars. Each call has a key by which the tool recognizes a
// repeat.
type tools struct {
	world *world
	mu    sync.Mutex
	// keys are the idempotency keys of the steps.
	keys map[string]string
	// orders are the idempotency keys of the orders of a run. One call of a model is one order.
	orders  map[string]string
	receipt int
}

func newTools(w *world) *tools {
	return &tools{world: w, keys: map[string]string{}, orders: map[string]string{}}
}

// settled checks that every order was accepted once.
func (t *tools) settled() {
	t.world.note("%d orders, %d calls of the model", len(t.orders), len(t.world.endpoint.calls))
}

// order accepts an order of a model. Under two keys it would be executed twice, in any spelling.
func (t *tools) order(s *pawl.Step) {
	var asked struct{ Order string }
	_ = json.Unmarshal([]byte(s.Assignment.GetPayloadJson()), &asked) // only a call of a model contains an order
	if asked.Order == "" {
		return
	}
	name := s.Assignment.GetLease().GetRunId() + " " + asked.Order
	t.mu.Lock()
	first, known := t.orders[name]
	if !known {
		t.orders[name] = s.IdempotencyKey()
	}
	t.mu.Unlock()
	if known && first != s.IdempotencyKey() {
		t.world.fail("one effect outside", "order %s was taken under the keys %q and %q", name, first, s.IdempotencyKey())
	}
}

// charge is a tool that takes money. With two keys, it would do so twice.
func (t *tools) charge(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
	lease := s.Assignment.GetLease()
	t.order(s)
	t.keyed(s)
	dice := diceOf(lease.GetRunId(), uint64(lease.GetStep()), uint64(lease.GetAttempt()))
	if !t.world.healing {
		if err := pause(ctx, time.Duration(dice.IntN(800))*time.Millisecond); err != nil {
			return nil, err
		}
		if dice.IntN(3) == 0 {
			return nil, &pawl.Failure{Code: "DECLINED", Message: "try again"}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.receipt++
	return fmt.Appendf(nil, `{"receipt":%d}`, t.receipt), nil
}

// keyed checks that all calls of a step have one key.
func (t *tools) keyed(s *pawl.Step) {
	step := fmt.Sprintf("%s/%d", s.Assignment.GetLease().GetRunId(), s.Assignment.GetLease().GetStep())
	t.mu.Lock()
	first, known := t.keys[step]
	if !known {
		t.keys[step] = s.IdempotencyKey()
	}
	t.mu.Unlock()
	if known && first != s.IdempotencyKey() {
		t.world.fail("one effect outside", "step %s was called under the keys %q and %q", step, first, s.IdempotencyKey())
	}
}
