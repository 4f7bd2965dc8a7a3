package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Loops without progress (x_pawl.no_progress, semantics §6). A visit that ends in the same way as an
// earlier visit makes no progress. A visit that ends in a new way makes progress. Every input from
// outside also counts as progress.

// noProgress is the name of the guard that refuses a target, and the reason with which the run ends.
const noProgress = "no_progress"

// madeNoProgress counts the end of the visit and reports whether the target must be refused. If the
// target has no fallback (on_max_visits) but another state of the loop has one, the target is entered
// once more. The run is then refused at the state with the fallback.
func (t *txn) madeNoProgress(e entry) bool {
	rule := t.g.NoProgress
	if rule == nil {
		return false
	}
	n := t.repeated(e)
	if n < rule.Window {
		return false
	}
	return n > rule.Window || t.g.States[e.target].OnMaxVisits != "" || !t.hasFallbackState()
}

// repeated records how the visit ends. It returns how many visits, including this one, ended in that way.
func (t *txn) repeated(e entry) int {
	end := t.endOfVisit(e)
	list := slices.Clone(t.s.Repeats)
	i := slices.IndexFunc(list, func(r machine.Repeat) bool { return r.Hash == end })
	if i < 0 {
		for j := range list {
			list[j].N = 0
		}
		list = append(list, machine.Repeat{State: e.from.Name, Hash: end})
		list = list[max(0, len(list)-machine.MaxRepeats):]
		i = len(list) - 1
	}
	list[i].N++
	t.s.Repeats = list
	return list[i].N
}

// hasFallbackState reports whether a state of the loop has an on_max_visits.
func (t *txn) hasFallbackState() bool {
	return slices.ContainsFunc(t.s.Repeats, func(r machine.Repeat) bool {
		return r.N > 0 && t.g.States[r.State].OnMaxVisits != ""
	})
}

// resetProgress forgets the ends of earlier visits, so that these visits and later visits do not count
// as one loop.
func (t *txn) resetProgress() { t.s.Repeats = nil }

// endOfVisit returns a hash that is equal for two visits if they ended in the same way.
func (t *txn) endOfVisit(e entry) (out [32]byte) {
	sum := sha256.New()
	addText(sum, e.from.Name)
	addText(sum, e.event)
	if t.g.NoProgress.Artifacts {
		t.addArtifacts(sum, e.artifacts)
	}
	if t.g.NoProgress.ToolCalls {
		t.addCalls(sum)
	}
	sum.Sum(out[:0])
	return out
}

// addText adds the length of a text and then the text to the hash, so that different pairs of texts
// never give the same bytes.
func addText(sum hash.Hash, text string) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(text)))
	sum.Write(size[:])
	sum.Write([]byte(text))
}

// addArtifacts adds the run's artifacts to the hash, with the values that they have after the writes.
func (t *txn) addArtifacts(sum hash.Hash, writes []machine.ArtifactWrite) {
	heads := slices.Clone(t.s.Artifacts)
	for i := range writes {
		w := &writes[i]
		at := slices.IndexFunc(heads, func(h machine.ArtifactHead) bool { return h.Name == w.Name })
		if at < 0 {
			at = len(heads)
			heads = append(heads, machine.ArtifactHead{Name: w.Name, Mode: t.g.Artifacts[w.Name].Mode})
		}
		updateHead(&heads[at], 0, w.Value)
	}
	slices.SortFunc(heads, func(a, b machine.ArtifactHead) int { return strings.Compare(a.Name, b.Name) })
	for i := range heads {
		addText(sum, heads[i].Name)
		sum.Write(heads[i].Hash[:])
	}
}

// addCalls adds the calls of tools and agents that the visit made to the hash, independent of their
// order. The sidecar's own steps are left out, because each of them contains a step number and so
// differs.
func (t *txn) addCalls(sum hash.Hash) {
	var calls []string
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Model == nil && p.About == nil {
			calls = append(calls, p.Tool+"\x00"+string(p.PayloadHash[:]))
		}
	}
	slices.Sort(calls)
	for _, call := range calls {
		addText(sum, call)
	}
}
