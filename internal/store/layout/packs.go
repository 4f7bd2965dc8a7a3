package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// CheckPack returns an error if the digest of a row is not the digest of its bytes.
func CheckPack(r *machine.PackRow) error {
	sum := sha256.Sum256(r.Canonical)
	if want := "sha256:" + hex.EncodeToString(sum[:]); r.Digest != want {
		return fmt.Errorf("pack %s@%s: digest is %q, its bytes have %q", r.ID, r.Version, r.Digest, want)
	}
	return nil
}

// BareValue returns the value of the row under a pack's id without a version. The value is the version
// to which the bare id refers.
func BareValue(version string) []byte { return append([]byte{codec.Format}, version...) }

// PackKey returns the key of a pack's bytes.
func PackKey(digest string) []byte { return append([]byte{KindPack}, digest...) }

// PackNameKey returns the key of a pack by its id and version.
func PackNameKey(ns uint32, id, version string) []byte {
	return AppendName(AppendName(Prefix(nil, KindPackName, ns), id), version)
}

// PackRefKey returns the key of a pack by its digest in a namespace.
func PackRefKey(ns uint32, digest string) []byte {
	return AppendName(Prefix(nil, KindPackRef, ns), digest)
}

// PackBareKey returns the key of a pack by its id without a version.
func PackBareKey(ns uint32, id string) []byte { return AppendName(Prefix(nil, KindPackBare, ns), id) }

// PackKeys returns the three keys of a pack in a namespace.
func PackKeys(ns uint32, id, version, digest string) (byName, ref, bare []byte) {
	return PackNameKey(ns, id, version), PackRefKey(ns, digest), PackBareKey(ns, id)
}
