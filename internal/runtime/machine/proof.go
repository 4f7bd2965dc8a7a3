package machine

// Proof is the result of verifying a run's journal.
type Proof struct {
	// Entries and Records are the numbers verified; Hash is the end of their chain.
	Entries, Records int64
	Hash             [32]byte
	// BadSeq is the first bad record and Detail its fault; 0 and "" if all are good.
	BadSeq uint64
	Detail string
	// Erased means that the values of the run were erased, so that only the chain was verified, without a
	// replay.
	Erased bool
}

// OK reports whether no fault was found.
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
	// Spool is the path of the unpacked file.
	Spool string
}
