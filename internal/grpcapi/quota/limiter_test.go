package quota

import "testing"

func TestLimiterForgets(t *testing.T) {
	t.Parallel()
	l := New(1, 1, nil)
	for i := range maxLimiters + 1 {
		l.bucket(string(rune(i)))
	}
	if l.buckets.Len() > maxLimiters {
		t.Fatalf("%d buckets", l.buckets.Len())
	}
	if New(0, 1, nil).Admit(t.Context(), "default") != nil {
		t.Fatal("no bound is a bound")
	}
}
