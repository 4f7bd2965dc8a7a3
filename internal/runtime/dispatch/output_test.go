package dispatch

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// drain reads all output after a position. It returns the text since the last reset, the number of resets, and
// the new position.
func drain(o *outputs, pos runtime.OutputPosition) (text string, resets int, at runtime.OutputPosition) {
	for {
		chunk, ok := o.after("r", pos)
		if !ok {
			return text, resets, pos
		}
		if chunk.Reset {
			resets++
			text = ""
		}
		text += chunk.Text
		pos = runtime.OutputPosition{Turn: chunk.Turn, Delivery: chunk.Delivery, Offset: chunk.Offset + int64(len(chunk.Text))}
	}
}

func outputLease(turn uint64, delivery int) *turnLease {
	return &turnLease{run: "r", turn: turn, attempt: 1, delivery: delivery}
}

// TestOutputs: pieces come in order, even if some are sent twice. A new delivery resets the output. A new turn
// does not.
func TestOutputs(t *testing.T) {
	t.Parallel()
	o := newOutputs()
	first := outputLease(3, 1)
	for _, piece := range []struct {
		offset int64
		text   string
		end    int64
		ok     bool
	}{{0, "one ", 4, true}, {0, "one ", 4, true}, {2, "e two", 7, true}, {9, "gap", 7, false}, {7, "", 7, true}} {
		if end, ok := o.add(first, piece.offset, piece.text, kindOfPiece{}); end != piece.end || ok != piece.ok {
			t.Fatalf("add %d %q: %d %v, want %d %v", piece.offset, piece.text, end, ok, piece.end, piece.ok)
		}
	}
	text, resets, at := drain(&o, runtime.OutputPosition{})
	if text != "one two" || resets != 0 {
		t.Fatalf("read %q, %d resets", text, resets)
	}
	o.add(first, 7, " three", kindOfPiece{})
	if text, _, at = drain(&o, at); text != " three" {
		t.Fatalf("read on %q", text)
	}
	o.add(outputLease(3, 2), 0, "again", kindOfPiece{})
	if text, resets, at = drain(&o, at); text != "again" || resets != 1 {
		t.Fatalf("of the new delivery %q, %d resets", text, resets)
	}
	o.over("r", 3)
	if _, ok := o.after("r", runtime.OutputPosition{}); ok {
		t.Fatal("a turn that is over is told to who never read of it")
	}
	o.add(outputLease(8, 1), 0, "next", kindOfPiece{})
	if text, resets, _ = drain(&o, at); text != "next" || resets != 0 {
		t.Fatalf("of the next turn %q, %d resets", text, resets)
	}
}

// TestOutputWindow: the end of a long output is kept, cut between characters. A reader that was too slow
// receives a reset.
func TestOutputWindow(t *testing.T) {
	t.Parallel()
	o := newOutputs()
	lease := outputLease(1, 1)
	piece := strings.Repeat("aé", 10_001)
	var end int64
	for range 40 {
		end, _ = o.add(lease, end, piece, kindOfPiece{})
	}
	text, resets, at := drain(&o, runtime.OutputPosition{Turn: 1, Delivery: 1, Offset: 5})
	if resets != 1 || at.Offset != end || len(text) < OutputWindow || len(text) > 3*OutputWindow || !utf8.ValidString(text) {
		t.Fatalf("read %d bytes up to %d of %d, %d resets, valid %v", len(text), at.Offset, end, resets, utf8.ValidString(text))
	}
	if !strings.HasSuffix(text, piece) {
		t.Fatal("the end is missing")
	}
	if _, resets, _ = drain(&o, runtime.OutputPosition{Turn: 1, Delivery: 1, Offset: end + 1}); resets != 1 {
		t.Fatal("a position that never was is not reset")
	}
}

// TestLostOutput: a server that has lost an output gets it from the worker again. A reader keeps what it has read, at
// each point of the repetition, and continues behind it. If the worker starts over instead, the reader discards it.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	first := outputLease(3, 1)
	before := newOutputs()
	before.add(first, 0, "one two ", kindOfPiece{})
	_, _, at := drain(&before, runtime.OutputPosition{})
	for name, c := range map[string]struct {
		over bool
		text string
	}{"sent again": {false, "three"}, "started over": {true, "one two three"}} {
		o := newOutputs()
		if end, ok := o.add(first, 8, "three", kindOfPiece{}); end != 0 || ok {
			t.Fatalf("%s: a piece after a gap: %d %v", name, end, ok)
		}
		if c.over {
			o.startOver(first)
		}
		var text string
		var resets int
		now := at
		var end int64
		for _, piece := range []string{"", "one ", "two ", "three"} {
			end, _ = o.add(first, end, piece, kindOfPiece{})
			more, again, next := drain(&o, now)
			text, resets, now = text+more, resets+again, next
		}
		if want := map[bool]int{true: 1}[c.over]; text != c.text || resets != want {
			t.Fatalf("%s: read %q with %d resets, want %q with %d", name, text, resets, c.text, want)
		}
	}
}

// TestOutputMemory: the outputs of many runs are bounded together.
func TestOutputMemory(t *testing.T) {
	t.Parallel()
	o := newOutputs()
	piece := strings.Repeat("x", OutputWindow)
	for i := range 2 * maxOutputs / OutputWindow {
		o.add(&turnLease{run: strings.Repeat("r", i+1), turn: 1, delivery: 1}, 0, piece, kindOfPiece{})
	}
	held := 0
	for i := range 2 * maxOutputs / OutputWindow {
		if out, ok := o.byRun.Peek(strings.Repeat("r", i+1)); ok {
			held += out.weight()
		}
	}
	if held > maxOutputs || held < maxOutputs/2 || held != o.byRun.Weight() {
		t.Fatalf("%d bytes in %d outputs (%d counted)", held, o.byRun.Len(), o.byRun.Weight())
	}
}

// TestOutputKinds: each chunk is of one kind and follows one record, for pieces of any size.
func TestOutputKinds(t *testing.T) {
	t.Parallel()
	o := newOutputs()
	lease := outputLease(2, 1)
	var end int64
	for _, piece := range []struct {
		text string
		kind kindOfPiece
	}{
		{"think ", kindOfPiece{reasoning: true, seq: 2}}, {"more", kindOfPiece{reasoning: true, seq: 2}}, {"say", kindOfPiece{seq: 2}},
		{"later", kindOfPiece{seq: 5}}, {"", kindOfPiece{reasoning: true, seq: 7}},
	} {
		end, _ = o.add(lease, end, piece.text, piece.kind)
	}
	var pos runtime.OutputPosition
	for _, want := range []runtime.OutputChunk{
		{RunID: "r", Turn: 2, Attempt: 1, Delivery: 1, Text: "think more", Reasoning: true, Behind: 2},
		{RunID: "r", Turn: 2, Attempt: 1, Delivery: 1, Offset: 10, Text: "say", Behind: 2},
		{RunID: "r", Turn: 2, Attempt: 1, Delivery: 1, Offset: 13, Text: "later", Behind: 5},
	} {
		got, ok := o.after("r", pos)
		if !ok || got != want {
			t.Fatalf("behind %+v: %+v, want %+v", pos, got, want)
		}
		pos = runtime.OutputPosition{Turn: 2, Delivery: 1, Offset: got.Offset + int64(len(got.Text))}
	}
	if got, ok := o.after("r", pos); ok {
		t.Fatalf("there is more: %+v", got)
	}
	for i := range 3 * OutputWindow / 100 {
		end, _ = o.add(lease, end, strings.Repeat("x", 100), kindOfPiece{reasoning: i%2 == 0, seq: 8})
	}
	out, _ := o.byRun.Peek("r")
	if first := out.spans[out.spanAt(out.from)]; first.from > out.from || len(out.spans) < 2 || out.spans[1].from <= out.from {
		t.Fatalf("the first spans %+v do not hold offset %d", out.spans[:2], out.from)
	}
}
