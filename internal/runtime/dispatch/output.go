package dispatch

import (
	"sort"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// Bounds of the output that is held in memory.
const (
	// OutputWindow is how much of one turn's output is kept at least, bytes.
	OutputWindow = 256 << 10
	maxOutputs   = 32 << 20
	// outputOverhead is about what an output takes beside its text, so that empty ones are
	// bounded as well.
	outputOverhead = 256
	// spanOverhead is what one change of what the text is takes.
	spanOverhead = 24
)

// output is the newest output of one run.
type output struct {
	run     string
	turn    uint64
	attempt int
	// lease is the delivery that it is of, and delivery what readers are told: more than
	// that of any output before it, so that they notice.
	lease    int
	delivery int
	// text begins at offset from.
	from int64
	text []byte
	// spans say what the text is, by where they begin; the first one holds offset from.
	spans []span
	over  bool
}

// span is text of one kind, which goes to the next one.
type span struct {
	from int64
	kindOfPiece
}

// kindOfPiece is what a piece is told with.
type kindOfPiece struct {
	// reasoning: it is what a model thinks, not what the turn says.
	reasoning bool
	// seq is the run's newest record when the piece came: it is told behind that one, and
	// before any other.
	seq uint64
}

// add appends text of a kind.
func (o *output) add(text string, kind kindOfPiece) {
	if n := len(o.spans); n == 0 || o.spans[n-1].kindOfPiece != kind {
		o.spans = append(o.spans, span{from: o.end(), kindOfPiece: kind})
	}
	o.text = append(o.text, text...)
	// Cut now and then, not with each piece: a cut copies the window.
	if cut := len(o.text) - OutputWindow; cut > OutputWindow {
		o.text = append(o.text[:0:0], o.text[cut:]...)
		o.from += int64(cut)
		o.spans = append(o.spans[:0:0], o.spans[o.spanAt(o.from):]...)
	}
}

// end is the offset behind the text.
func (o *output) end() int64 { return o.from + int64(len(o.text)) }

// spanAt is the span that holds an offset, the last one for the end; 0 without spans.
func (o *output) spanAt(offset int64) int {
	i := sort.Search(len(o.spans), func(i int) bool { return o.spans[i].from > offset })
	return max(i-1, 0)
}

// weight is about what it takes of memory, bytes.
func (o *output) weight() int { return outputOverhead + len(o.text) + len(o.spans)*spanOverhead }

// outputs keeps the newest outputs, those used longest ago going first.
type outputs struct{ byRun *cache.LRU[string, *output] }

func newOutputs() outputs { return outputs{byRun: cache.New[string, *output](maxOutputs)} }

// add appends a piece to the output of a lease's delivery and returns the end.
// What was there already is skipped; a gap is refused with ok = false.
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

// of finds or begins the output of a delivery.
func (o *outputs) of(lease *turnLease) *output {
	if out, ok := o.byRun.Get(lease.run); ok && out.turn == lease.turn && out.lease == lease.delivery {
		return out
	}
	return o.begin(lease)
}

// begin makes an empty output of a delivery. Those who read the one before forget it.
func (o *outputs) begin(lease *turnLease) *output {
	out := &output{run: lease.run, turn: lease.turn, attempt: lease.attempt, lease: lease.delivery, delivery: lease.delivery}
	if before, ok := o.byRun.Get(lease.run); ok && before.turn == lease.turn {
		out.delivery = max(out.delivery, before.delivery+1)
	}
	o.byRun.Put(lease.run, out, outputOverhead)
	return out
}

// over notes that a turn has ended: those who read its output may read on, others
// find all of it in the journal.
func (o *outputs) over(run string, turn uint64) {
	if out, ok := o.byRun.Peek(run); ok && out.turn == turn {
		out.over = true
	}
}

// maxChunk bounds one piece that is told.
const maxChunk = 64 << 10

// after is the next piece behind a position; false: there is none.
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

// runeStart is the first begin of a character at or behind i: the window may
// have cut one in two.
func runeStart(text []byte, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}
