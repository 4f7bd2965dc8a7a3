package layout

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Listed reads the versions of an artifact with after < seq <= atSeq that are in rows;
// for the newest alone, those of the last row that has one. A row's key has the seq of
// its last version.
func Listed(txn *Txn, ns uint32, run, artifact string, after, atSeq uint64, newestOnly bool) (out []machine.ArtifactVersion, err error) {
	p := ArtifactPrefix(nil, ns, run, artifact)
	if newestOnly {
		if after, err = rowBefore(txn, p, atSeq); err != nil {
			return nil, err
		}
	}
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Seek(Number(bytes.Clone(p), after+1)); Has(it, p); it.Next() {
		var versions []machine.ArtifactVersion
		err := ValueOf(it, func(v []byte) error {
			versions, err = codec.DecodeVersions(artifact, v)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			if v.Seq > atSeq {
				return out, nil
			}
			if v.Seq > after {
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// rowBefore is the seq before the last row that ends at or before a record, or 0: what
// is written up to that record begins in that row or the one after it.
func rowBefore(txn *Txn, p []byte, seq uint64) (uint64, error) {
	it := txn.Scan(kv.Range{Prefix: p, Reverse: true, KeysOnly: true})
	defer it.Close()
	it.Seek(Number(bytes.Clone(p), seq))
	if !Has(it, p) {
		return 0, nil
	}
	last, err := LastNumber(it.Key(), p)
	return last - 1, err
}
