package testkit

import "testing"

// ReportTried says how many faults a test tried, for who adds them up (`make trust`): a test that
// says nothing tried as many as it has cases. What names them in the plural: "kills".
func ReportTried(tb testing.TB, n int, what string) {
	tb.Helper()
	tb.Logf("tried: %d %s", n, what)
}
