package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// EncodeVersions returns the value of an artifact row. It contains the versions of one artifact that
// were written since the previous row, in order.
func EncodeVersions(versions []machine.ArtifactVersion) []byte {
	b := row(2 + 16*len(versions))
	for i := range versions {
		var mark int
		b, mark = open(b, 1)
		b = shut(appendArtifactVersion(b, &versions[i]), mark)
	}
	return b
}

// DecodeVersions decodes an artifact row. name is the artifact's name, which is in the row's key.
func DecodeVersions(name string, value []byte) ([]machine.ArtifactVersion, error) {
	if err := checkFormat("artifact row", value, 1); err != nil {
		return nil, err
	}
	var versions []machine.ArtifactVersion
	s := newScan("artifact row", value[1:])
	for s.next() {
		if s.num != 1 {
			s.unknown()
			break
		}
		v := machine.ArtifactVersion{Name: name}
		s.keep(readArtifactVersion(s.message(), &v))
		versions = append(versions, v)
	}
	return versions, s.err
}
