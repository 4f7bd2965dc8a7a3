package machine

// Proof is the result of verifying a run's journal.
type Proof struct {
	// Entries and Records are the numbers of entries and records that were verified. Hash is the last hash of their chain.
	Entries, Records int64
	Hash             [32]byte
	// BadSeq is the first bad record, and Detail describes its fault. They are 0 and "" if all records are good.
	BadSeq uint64
	Detail string
	// Erased means that the values of the run were erased. In this case only the hash chain was
	// verified, and the entries were not replayed.
	Erased bool
}

// OK reports whether no fault was found.
func (p *Proof) OK() bool { return p.BadSeq == 0 }

// Export is the unpacked content of a portable file of one run, before the run is imported.
type Export struct {
	RunID string
	// Digest, Entry, Agent and EntryOverride select the graph of the run.
	Digest        string
	Entry         string
	Agent         string
	EntryOverride bool
	// Pack is the pack as canonical JSON. Digest is its hash.
	Pack []byte
	// Records is the last seq. Hash is the last hash of the chain.
	Records uint64
	Hash    [32]byte
	// Spool is the path of the unpacked file.
	Spool string
}
