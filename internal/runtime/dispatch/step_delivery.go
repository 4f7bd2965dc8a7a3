package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// maxCounts bounds the processes of workers whose numbers are remembered, per namespace. One
// that is forgotten counts on from what it says that it received: then a step that was lost on
// the way may count as received, and is unknown instead of sent again.
const maxCounts = 4096

// outgoingSteps numbers the deliveries of steps to one process of a worker, over all its
// streams, and hands them out in that order: what it received on a stream is all up to its
// highest number. Guarded by the space's mutex.
type outgoingSteps struct {
	last uint64
	// first is what the process had received when it first connected to this process of ours:
	// all that was sent before and has a higher number is lost. counted: it said so.
	first   uint64
	counted bool
	// waiting are the deliveries that are not handed out yet, in order.
	waiting []*outgoingStep
}

// outgoingStep is one delivery on its way; hand is set once it may go.
type outgoingStep struct {
	number uint64
	hand   func()
}

// numbersOf finds or makes the numbers of a worker's process.
func (sp *namespaceShard) numbersOf(name workerName, req *WorkerRequest) *outgoingSteps {
	key := machine.StepHolder{Principal: name.principal, Worker: name.id, Instance: req.Instance}
	known, ok := sp.counts.Get(key)
	if !ok || req.Instance == "" {
		known = &outgoingSteps{}
	}
	if req.Instance != "" {
		sp.counts.Put(key, known, 1)
	}
	if req.Counts && !known.counted {
		known.first, known.counted = req.Received, true
	}
	if req.Counts {
		known.last = max(known.last, req.Received)
	}
	return known
}

// lost reports whether a step that an earlier process of ours sent never arrived.
func (o *outgoingSteps) lost(h machine.StepHolder) bool { return o.counted && h.Delivery > o.first }

// begin gives a delivery its number.
func (o *outgoingSteps) begin() *outgoingStep {
	o.last++
	d := &outgoingStep{number: o.last}
	o.waiting = append(o.waiting, d)
	return d
}

// end lets a delivery go, once all before it have gone or were given up.
func (o *outgoingSteps) end(d *outgoingStep, hand func()) {
	for d.hand = hand; len(o.waiting) > 0 && o.waiting[0].hand != nil; o.waiting = o.waiting[1:] {
		o.waiting[0].hand()
	}
}
