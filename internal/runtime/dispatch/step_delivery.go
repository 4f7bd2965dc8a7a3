package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// maxCounts bounds, for each namespace, the worker processes whose delivery numbers are remembered. If
// a process is no longer remembered, its numbers continue after the highest number that the process
// reports. Then a step that was lost in transit may be treated as received: its outcome is unknown, and
// it is not sent again.
const maxCounts = 4096

// outgoingSteps numbers the step deliveries to one worker process, over all its streams. It sends the deliveries in the order of their
// numbers. So if a process has received a number on a stream, it has received all lower numbers. The mutex of the shard guards it.
type outgoingSteps struct {
	last uint64
	// first is the highest number that the worker process had received when it first connected to this
	// server process. A delivery with a higher number that an earlier server process sent was lost.
	// counted reports whether the worker process sent such a number.
	first   uint64
	counted bool
	// waiting are the deliveries that are not sent yet, in order.
	waiting []*outgoingStep
}

// outgoingStep is one delivery that is not sent yet. hand is the function that sends it. hand is nil
// until the delivery may be sent.
type outgoingStep struct {
	number uint64
	hand   func()
}

// numbersOf returns the delivery numbers of a worker's process and creates them if needed.
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

// lost reports whether the worker process never received the delivery h. An earlier server process sent
// this delivery.
func (o *outgoingSteps) lost(h machine.StepHolder) bool { return o.counted && h.Delivery > o.first }

// begin gives a delivery its number.
func (o *outgoingSteps) begin() *outgoingStep {
	o.last++
	d := &outgoingStep{number: o.last}
	o.waiting = append(o.waiting, d)
	return d
}

// end makes a delivery ready. hand is the function that sends the delivery or abandons it. It is called
// after the hand functions of all earlier deliveries.
func (o *outgoingSteps) end(d *outgoingStep, hand func()) {
	for d.hand = hand; len(o.waiting) > 0 && o.waiting[0].hand != nil; o.waiting = o.waiting[1:] {
		o.waiting[0].hand()
	}
}
