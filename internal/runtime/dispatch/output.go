package dispatch

import (
	"sort"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// These constants limit the turn output that is held in memory.
const (
	// OutputWindow is the number of bytes of output that are always kept for one turn. The newest bytes
	// are kept.
	OutputWindow = 256 << 10
	maxOutputs   = 32 << 20
	// outputOverhead is the approximate memory of an output without its text, so that empty outputs
	// are bounded as well.
	outputOverhead = 256
	// spanOverhead is the memory of one span.
	spanOverhead = 24
)

// output is the newest output of one run.
type output struct {
	run     string
	turn    uint64
	attempt int
	// lease is the delivery of the turn that wrote the output. delivery is the number that readers
	// receive for it. This number is higher than that of every earlier output, so that readers notice a
	// new output.
	lease    int
	delivery int
	// text holds the output that begins at the offset from.
	from int64
	text []byte
	// spans hold the kind of each part of the text. The key of a span is the offset of its first byte.
	// The first span contains the offset from.
	spans []span
	over  bool
}

// span is a part of the text that has one kind. It ends where the next span begins.
type span struct {
	from int64
	kindOfPiece
}

// kindOfPiece holds the attributes of a piece of output.
type kindOfPiece struct {
	// reasoning reports whether the text is reasoning of a model instead of output of the turn.
	reasoning bool
	// seq is the newest record of the run when the piece arrived. Readers get the piece after that
	// record and before the next one.
	seq uint64
}

// add appends text of a kind.
func (o *output) add(text string, kind kindOfPiece) {
	if n := len(o.spans); n == 0 || o.spans[n-1].kindOfPiece != kind {
		o.spans = append(o.spans, span{from: o.end(), kindOfPiece: kind})
	}
	o.text = append(o.text, text...)
	// Cut only when the text is twice as long as the window, because each cut copies the window.
	if cut := len(o.text) - OutputWindow; cut > OutputWindow {
		o.text = append(o.text[:0:0], o.text[cut:]...)
		o.from += int64(cut)
		o.spans = append(o.spans[:0:0], o.spans[o.spanAt(o.from):]...)
	}
}

// end returns the offset of the end of the text.
func (o *output) end() int64 { return o.from + int64(len(o.text)) }

// spanAt returns the index of the span that contains an offset. If offset is the end of the text,
// spanAt returns the last span. If there are no spans, it returns 0.
func (o *output) spanAt(offset int64) int {
	i := sort.Search(len(o.spans), func(i int) bool { return o.spans[i].from > offset })
	return max(i-1, 0)
}

// weight returns the approximate memory of the output, in bytes.
func (o *output) weight() int { return outputOverhead + len(o.text) + len(o.spans)*spanOverhead }

// outputs holds the newest output of each run in memory. It evicts the least recently used output.
type outputs struct{ byRun *cache.LRU[string, *output] }

func newOutputs() outputs { return outputs{byRun: cache.New[string, *output](maxOutputs)} }

// add appends a piece to the output of a lease's delivery and returns the new end. It skips text that the output already contains. If the
// piece would leave a gap, add changes nothing and returns ok = false.
func (o *outputs) add(lease *turnLease, offset int64, text string, kind kindOfPiece) (end int64, ok bool) {
	out := o.of(lease)
	end = out.end()
	switch {
	case offset > end:
		return end, false
	case offset+int64(len(text)) <= end:
		return end, true
	}
	out.add(text[end-offset:], kind)
	o.byRun.Put(out.run, out, out.weight())
	return out.end(), true
}

// of returns the output of a delivery and creates it if needed.
func (o *outputs) of(lease *turnLease) *output {
	if out, ok := o.byRun.Get(lease.run); ok && out.turn == lease.turn && out.lease == lease.delivery {
		return out
	}
	return o.begin(lease)
}

// begin creates an empty output of a delivery. Readers of the earlier output discard what they
// read.
func (o *outputs) begin(lease *turnLease) *output {
	out := &output{run: lease.run, turn: lease.turn, attempt: lease.attempt, lease: lease.delivery, delivery: lease.delivery}
	if before, ok := o.byRun.Get(lease.run); ok && before.turn == lease.turn {
		out.delivery = max(out.delivery, before.delivery+1)
	}
	o.byRun.Put(lease.run, out, outputOverhead)
	return out
}

// over records that a turn has ended. A reader that has begun to read its output may read the rest. A
// new reader finds the complete output in the journal.
func (o *outputs) over(run string, turn uint64) {
	if out, ok := o.byRun.Peek(run); ok && out.turn == turn {
		out.over = true
	}
}

// maxChunk bounds the piece of output that a reader gets in one call, in bytes.
const maxChunk = 64 << 10

// after returns the piece that follows a position. It returns false if there is no such piece.
func (o *outputs) after(run string, pos render.OutputPosition) (render.OutputChunk, bool) {
	out, ok := o.byRun.Peek(run)
	if !ok || out.over && pos.Turn != out.turn {
		return render.OutputChunk{}, false
	}
	chunk := render.OutputChunk{RunID: run, Turn: out.turn, Attempt: out.attempt, Delivery: out.delivery, Offset: pos.Offset}
	if pos.Turn != out.turn || pos.Delivery != out.delivery || pos.Offset < out.from || pos.Offset > out.end() {
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

// runeStart returns the start of the first character at or after i. The window may begin in the middle of a character.
func runeStart(text []byte, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}
