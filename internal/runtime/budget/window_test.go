package budget

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window   Window
		zone, at string
		// begin and end are "" where there is none.
		begin, end string
	}{
		{Day, "", "2026-11-23T12:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		{Day, "", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		{Day, "", "2026-11-22T23:59:59.999999999Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"},
		{Day, "Europe/Berlin", "2026-11-22T23:30:00Z", "2026-11-22T23:00:00Z", "2026-11-23T23:00:00Z"},
		// Days of 23 and 25 hours.
		{Day, "Europe/Berlin", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{Day, "Europe/Berlin", "2026-10-25T10:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		// Days that begin at one o'clock: there is no midnight.
		{Day, "America/Asuncion", "2023-10-01T12:00:00Z", "2023-10-01T04:00:00Z", "2023-10-02T03:00:00Z"},
		{Day, "America/Asuncion", "2023-09-30T12:00:00Z", "2023-09-30T04:00:00Z", "2023-10-01T04:00:00Z"},
		{Day, "Africa/Cairo", "2023-04-28T12:00:00Z", "2023-04-27T22:00:00Z", "2023-04-28T21:00:00Z"},
		{Month, "", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{Month, "", "2024-02-29T00:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{Month, "America/New_York", "2026-11-01T03:59:59Z", "2026-10-01T04:00:00Z", "2026-11-01T04:00:00Z"},
		{Month, "America/New_York", "2026-11-01T04:00:00Z", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"},
		{Ever, "Asia/Tokyo", "2026-11-01T04:00:00Z", "", ""},
	} {
		zone, err := zoneOf(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		shown := func(at time.Time) string {
			if at.IsZero() {
				return ""
			}
			return at.UTC().Format(time.RFC3339Nano)
		}
		if got := shown(c.window.Begin(at, zone)); got != c.begin {
			t.Errorf("%s of %s in %q begins %s, want %s", c.window, c.at, c.zone, got, c.begin)
		}
		if got := shown(c.window.End(at, zone)); got != c.end {
			t.Errorf("%s of %s in %q ends %s, want %s", c.window, c.at, c.zone, got, c.end)
		}
	}
}

// TestWindowsMeet: each instant lies in one window, whose end is the next one's beginning.
func TestWindowsMeet(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Europe/Berlin", "America/Asuncion", "Africa/Cairo", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Beirut"} {
		zone, err := zoneOf(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []Window{Day, Month} {
			at := time.Date(2010, 1, 1, 0, 30, 0, 0, time.UTC)
			for at.Year() < 2030 {
				begin, end := w.Begin(at, zone), w.End(at, zone)
				if begin.After(at) || !end.After(at) || !w.Begin(end, zone).Equal(end) || !w.Begin(end.Add(-1), zone).Equal(begin) {
					t.Fatalf("%s of %s in %q is %s to %s, the next one begins %s", w, at, name, begin.UTC(), end.UTC(), w.Begin(end, zone).UTC())
				}
				at = end
			}
		}
	}
}

func TestBadTables(t *testing.T) {
	t.Parallel()
	_, err := NewTable([]Account{
		{Label: "a=b", Window: Day, MaxTokens: 1},
		{Value: "acme", Window: Day, MaxTokens: 1},
		{Label: "tenant", Window: "week", MaxTokens: 1},
		{Label: "tenant", Window: Day, MaxTokens: -1},
		{Label: "tenant", Window: Day, MaxCostMicro: machine.MaxCharge + 1},
		{Label: "tenant", Window: Day},
		{Label: "tenant", Window: Day, MaxTokens: 1, Zone: "Europe/Atlantis"},
		{Label: "tenant", Window: Day, MaxTokens: 1, Zone: "Local"},
		{Label: "tenant", Value: strings.Repeat("x", 257), Window: Day, MaxTokens: 1},
		{Label: "team", Window: Day, MaxTokens: 1},
		{Label: "team", Value: "*", Window: Day, MaxTokens: 2, Zone: "UTC"},
	})
	for _, want := range []string{
		`accounts[0].label`, `accounts[1].value: is "acme"`, `accounts[2].window: is "week", allowed: day, month, ever`,
		`accounts[3].max_tokens: must be 0`, `accounts[4].max_cost_usd: must be 0`, `accounts[5].max_cost_usd: an account has a limit`,
		`accounts[6].time_zone: "Europe/Atlantis" is no time zone`, `accounts[7].time_zone: "Local"`, `accounts[8].value: has 257 bytes, at most 256`,
		`accounts[10].value: there is an account team=*/day already`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "accounts[9]") {
		t.Errorf("%v blames what is right", err)
	}
	if _, err := NewTable(make([]Account, MaxAccounts+1)); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("too many: %v", err)
	}
}

// TestWhichAccounts: of what differs in the value alone a run has one, its own value's.
func TestWhichAccounts(t *testing.T) {
	t.Parallel()
	table, err := NewTable([]Account{
		{Label: "tenant", Window: Day, MaxTokens: 1},
		{Label: "tenant", Value: "acme", Window: Day, MaxTokens: 2},
		{Label: "tenant", Value: "acme", Window: Month, Zone: "Europe/Berlin", MaxTokens: 3},
		{Window: Ever, MaxTokens: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, c := range []struct {
		labels []machine.Label
		want   string
	}{
		{nil, "/ever:4"},
		{[]machine.Label{{Key: "tenant", Value: "acme"}}, "tenant=acme/day:2 tenant=acme/month@Europe/Berlin:3 /ever:4"},
		{[]machine.Label{{Key: "tenant", Value: "other"}}, "tenant=other/day:1 /ever:4"},
		{[]machine.Label{{Key: "tenant", Value: "*"}}, "tenant=*/day:1 /ever:4"},
		{[]machine.Label{{Key: "tenant", Value: ""}}, "tenant=/day:1 /ever:4"},
		{[]machine.Label{{Key: "", Value: "x"}}, "/ever:4"},
	} {
		var got []string
		for _, h := range table.accountsFor(c.labels, at) {
			got = append(got, h.name+":"+string(rune('0'+h.entry.MaxTokens)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v, want %s", c.labels, got, c.want)
		}
	}
}
