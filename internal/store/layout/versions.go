package layout

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Listed returns the versions of an artifact with after < seq <= atSeq that rows contain. If newestOnly
// is set, it returns only the versions in the last of these rows. A row's key contains the seq of the
// row's last version.
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

// rowBefore returns the seq just before the last row that ends at or before the record seq. It returns
// 0 if there is no such row. The newest version up to that record is in that row or in the next one.
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
