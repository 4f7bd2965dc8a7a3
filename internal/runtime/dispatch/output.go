package dispatch

import (
	"sort"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// These constants limit the memory for the output of turns.
const (
	// OutputWindow is the number of the newest bytes of output that are kept for a turn, as long as its output is in memory. maxOutputs
	// bounds the memory of all outputs of a namespace, in bytes.
	OutputWindow = 256 << 10
	maxOutputs   = 32 << 20
	// outputOverhead is the approximate memory of an output besides its text, in bytes. It is counted so that the
	// number of empty outputs is bounded, too.
	outputOverhead = 256
	// spanOverhead is the approximate memory of one span, in bytes.
	spanOverhead = 24
)

// output is the newest part of the text that the open turn of one run has streamed.
type output struct {
	run     string
	turn    uint64
	attempt int
	// lease is the number of the delivery (one assignment of the turn to a worker) that wrote the output. delivery is the
	// number that readers receive instead. It is higher than that of every earlier output of the turn, so that readers
	// notice when an output starts over.
	lease    int
	delivery int
	// text is the part of the output that is kept in memory. It begins at the offset `from` of the whole output.
	from int64
	text []byte
	// spans say which parts of the text are output and which are reasoning. A span begins at an offset of the whole
	// output. The first span contains the offset from.
	spans []span
	// lost is the offset up to which the server had received the output before it lost it, for example in a restart. The
	// worker sends the output again. A reader that has read up to here waits for what follows.
	lost int64
	over bool
}

// span is a part of the text that is either output or reasoning. It ends where the next span begins.
type span struct {
	from int64
	kindOfPiece
}

// kindOfPiece says whether a piece of streamed output is reasoning, and after which record of the run it arrived.
type kindOfPiece struct {
	// reasoning reports whether the text is reasoning of a model and not output of the turn.
	reasoning bool
	// seq is the seq of the run's newest record when this piece of output arrived. Readers get the piece after that
	// record and before the next one.
	seq uint64
}

// add appends text to the output. kind says whether the text is reasoning, and when it arrived.
func (o *output) add(text string, kind kindOfPiece) {
	if n := len(o.spans); n == 0 || o.spans[n-1].kindOfPiece != kind {
		o.spans = append(o.spans, span{from: o.end(), kindOfPiece: kind})
	}
	o.text = append(o.text, text...)
	// The kept text is cut only when it is twice as long as the window, because each cut copies the window.
	if cut := len(o.text) - OutputWindow; cut > OutputWindow {
		o.text = append(o.text[:0:0], o.text[cut:]...)
		o.from += int64(cut)
		o.spans = append(o.spans[:0:0], o.spans[o.spanAt(o.from):]...)
	}
}

// end returns the offset after the last byte of the output.
func (o *output) end() int64 { return o.from + int64(len(o.text)) }

// spanAt returns the index of the span that contains an offset. For the end of the output it returns the last span. If
// there are no spans, it returns 0.
func (o *output) spanAt(offset int64) int {
	i := sort.Search(len(o.spans), func(i int) bool { return o.spans[i].from > offset })
	return max(i-1, 0)
}

// weight returns the approximate memory of the output, in bytes.
func (o *output) weight() int { return outputOverhead + len(o.text) + len(o.spans)*spanOverhead }

// outputs contains the newest output of each run, in memory. If the memory is full, the output that was used longest
// ago is removed.
type outputs struct{ byRun *cache.LRU[string, *output] }

func newOutputs() outputs { return outputs{byRun: cache.New[string, *output](maxOutputs)} }

// add appends a piece of text to the output of a turn's delivery to a worker, and returns the end of the output. Text
// that the output already contains is skipped. If the piece would leave a gap, add changes nothing and returns ok =
// false.
func (o *outputs) add(lease *turnLease, offset int64, text string, kind kindOfPiece) (end int64, ok bool) {
	out := o.of(lease)
	end = out.end()
	switch {
	case offset > end:
		out.lost = max(out.lost, offset)
		return end, false
	case offset+int64(len(text)) <= end:
		return end, true
	}
	out.add(text[end-offset:], kind)
	o.byRun.Put(out.run, out, out.weight())
	return out.end(), true
}

// of returns the output that belongs to a lease of a turn. It creates an empty output if there is none for this lease.
func (o *outputs) of(lease *turnLease) *output {
	if out, ok := o.byRun.Get(lease.run); ok && out.turn == lease.turn && out.lease == lease.delivery {
		return out
	}
	return o.begin(lease, lease.delivery)
}

// startOver replaces the output of a lease with an empty one. The new output has another number than the first output
// of the lease. So readers notice that the output starts over, even if the server has lost the first output.
func (o *outputs) startOver(lease *turnLease) { o.begin(lease, lease.delivery+1) }

// begin creates an empty output for a delivery of a turn to a worker. Readers of an earlier output of the turn notice
// this and discard what they have read. number is the lowest number that readers may receive for it.
func (o *outputs) begin(lease *turnLease, number int) *output {
	out := &output{run: lease.run, turn: lease.turn, attempt: lease.attempt, lease: lease.delivery, delivery: number}
	if before, ok := o.byRun.Get(lease.run); ok && before.turn == lease.turn {
		out.delivery = max(out.delivery, before.delivery+1)
	}
	o.byRun.Put(lease.run, out, outputOverhead)
	return out
}

// over records that a turn has ended. A reader that has already read a part of its output may read the rest. Other
// readers find the complete output in the journal.
func (o *outputs) over(run string, turn uint64) {
	if out, ok := o.byRun.Peek(run); ok && out.turn == turn {
		out.over = true
	}
}

// maxChunk bounds the piece of output that one call returns, in bytes.
const maxChunk = 64 << 10

// after returns the piece of output that follows the position of a reader. It returns false if there is none. If the
// reader must discard what it has read, the piece may be empty.
func (o *outputs) after(run string, pos runtime.OutputPosition) (runtime.OutputChunk, bool) {
	out, ok := o.byRun.Peek(run)
	if !ok || out.over && pos.Turn != out.turn {
		return runtime.OutputChunk{}, false
	}
	chunk := runtime.OutputChunk{RunID: run, Turn: out.turn, Attempt: out.attempt, Delivery: out.delivery, Offset: pos.Offset}
	same := pos.Turn == out.turn && pos.Delivery == out.delivery
	if same && pos.Offset > out.end() && pos.Offset <= out.lost {
		return runtime.OutputChunk{}, false
	}
	if !same || pos.Offset < out.from || pos.Offset > out.end() {
		chunk.Offset = out.from
		chunk.Reset = pos.Turn == out.turn || out.from > 0
	}
	begin := runeStart(out.text, int(chunk.Offset-out.from))
	end := min(len(out.text), begin+maxChunk)
	if at := out.spanAt(out.from + int64(begin)); at < len(out.spans) {
		chunk.Reasoning, chunk.Behind = out.spans[at].reasoning, out.spans[at].seq
		if at+1 < len(out.spans) {
			end = min(end, int(out.spans[at+1].from-out.from))
		}
	}
	if end < len(out.text) {
		for end > begin && !utf8.RuneStart(out.text[end]) {
			end--
		}
	}
	chunk.Offset, chunk.Text = out.from+int64(begin), string(out.text[begin:end])
	return chunk, chunk.Text != "" || chunk.Reset
}

// runeStart returns the index of the first character that begins at or after i. The kept text may begin in the middle
// of a character.
func runeStart(text []byte, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}
