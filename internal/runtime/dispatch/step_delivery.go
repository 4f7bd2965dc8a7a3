package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// maxCounts bounds, for each namespace, the worker processes whose delivery numbers are remembered. The numbers of a
// forgotten process continue after the highest number that it reports. A step that was lost in transit may then count
// as received: its outcome is unknown, and it is not sent again.
const maxCounts = 4096

// outgoingSteps numbers the steps that are sent to one worker process, over all its connections, and sends them in the
// order of their numbers. So a process that has received a number on a connection has received all lower numbers. The
// mutex of the shard guards it.
type outgoingSteps struct {
	last uint64
	// first is the highest number that the worker process had received when it first connected to this server process.
	// An earlier server process may have given higher numbers, but the steps with these numbers never arrived. counted
	// reports whether the worker process sent its highest number.
	first   uint64
	counted bool
	// waiting are the steps that have a delivery number but are not sent yet, in order.
	waiting []*outgoingStep
}

// outgoingStep is a step that is not sent to its worker yet. hand is the function that sends it. It is nil while the
// step is being prepared.
type outgoingStep struct {
	number uint64
	hand   func()
}

// numbersOf returns the delivery numbers of the process of a worker, and creates them if needed. Of an unknown process (without an
// Instance) they are always new.
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

// lost reports whether the worker process never received the step of the delivery h, which an earlier server process
// sent.
func (o *outgoingSteps) lost(h machine.StepHolder) bool { return o.counted && h.Delivery > o.first }

// begin assigns the next number to a delivery.
func (o *outgoingSteps) begin() *outgoingStep {
	o.last++
	d := &outgoingStep{number: o.last}
	o.waiting = append(o.waiting, d)
	return d
}

// end records that the step of a delivery is prepared. hand sends the step or abandons it. It is called after the hand
// functions of all deliveries with lower numbers.
func (o *outgoingSteps) end(d *outgoingStep, hand func()) {
	for d.hand = hand; len(o.waiting) > 0 && o.waiting[0].hand != nil; o.waiting = o.waiting[1:] {
		o.waiting[0].hand()
	}
}
