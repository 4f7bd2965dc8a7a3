package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// maxCounts bounds the worker processes with remembered delivery numbers, for each namespace. For
// an evicted process, the numbers continue from what the process says it has received. A step that
// was lost on the way may then count as received, and its outcome is unknown instead of the step
// being sent again.
const maxCounts = 4096

// outgoingSteps numbers the step deliveries to one worker process, over all its streams. It sends
// them in the order of the numbers, so the highest number that a process has received on a stream
// covers all lower ones. The mutex of the shard guards it.
type outgoingSteps struct {
	last uint64
	// first is the highest number that the worker process had received when it first connected to
	// this server process. Everything sent earlier with a higher number is lost. counted reports
	// whether the worker process stated the number.
	first   uint64
	counted bool
	// waiting are the deliveries that are not sent yet, in order.
	waiting []*outgoingStep
}

// outgoingStep is one delivery that is not sent yet. hand sends it and is set once it may be sent.
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

// lost reports whether a step that an earlier server process sent never arrived.
func (o *outgoingSteps) lost(h machine.StepHolder) bool { return o.counted && h.Delivery > o.first }

// begin gives a delivery its number.
func (o *outgoingSteps) begin() *outgoingStep {
	o.last++
	d := &outgoingStep{number: o.last}
	o.waiting = append(o.waiting, d)
	return d
}

// end sends a delivery with hand, after all earlier ones have been sent or given up.
func (o *outgoingSteps) end(d *outgoingStep, hand func()) {
	for d.hand = hand; len(o.waiting) > 0 && o.waiting[0].hand != nil; o.waiting = o.waiting[1:] {
		o.waiting[0].hand()
	}
}
