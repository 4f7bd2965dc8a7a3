package machine

// Proof is how far a run's journal was proven.
type Proof struct {
	// Entries and Records are in order; Hash is the end of their chain.
	Entries, Records int64
	Hash             [32]byte
	// BadSeq is the first bad record and Detail what is wrong with it; 0 and "" if
	// nothing is.
	BadSeq uint64
	Detail string
	// Erased: the values of the run were erased, so that the chain was proven and nothing
	// replayed.
	Erased bool
}

// OK reports whether nothing was found wrong.
func (p *Proof) OK() bool { return p.BadSeq == 0 }

// Export is a portable file of one run that was unpacked and not yet imported.
type Export struct {
	RunID string
	// Digest, Entry, Agent and EntryOverride select the graph.
	Digest        string
	Entry         string
	Agent         string
	EntryOverride bool
	// Pack is the canonical JSON that Digest is the hash of.
	Pack []byte
	// Records is the last seq, Hash the end of the chain.
	Records uint64
	Hash    [32]byte
	// Spool is where the file lies meanwhile.
	Spool string
}
