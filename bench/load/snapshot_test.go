package load

import "testing"

// TestSnapshotPart: both figures come out of a real engine on a real store.
func TestSnapshotPart(t *testing.T) {
	t.Parallel()
	samples, err := tinySuite(t).snapshotPart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"snapshot_p50_us", "snapshot_us_per_mib"} {
		if got := samples[key]; len(got) != 1 || got[0] <= 0 {
			t.Errorf("%s is %v", key, got)
		}
	}
}
