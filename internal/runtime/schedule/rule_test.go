package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, cron, zone string) *Rule {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseCron(cron, loc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	got, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestNext: instants around the days on which clocks are set.
func TestNext(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, cron, zone, from string
		want                   string
	}{
		{"utc", "30 2 * * *", "UTC", "2026-03-28T12:00:00Z", "03-29T02:30Z 03-30T02:30Z"},
		{"an hour that is leapt over", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-29T01:00Z 03-30T00:30Z"},
		{"several of such an hour are one", "*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-29T01:00Z 03-30T00:00Z 03-30T00:20Z"},
		{"leapt over and landed on", "0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "03-29T01:00Z 03-29T01:30Z 03-30T00:00Z"},
		{"an hour that comes twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "10-25T00:30Z 10-26T01:30Z"},
		{"from within its second coming", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "10-26T01:30Z"},
		{"the end of its second coming", "0 3 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "10-25T02:00Z 10-26T02:00Z"},
		{"every hour runs on over a leap", "0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", "03-29T00:00Z 03-29T01:00Z 03-29T02:00Z"},
		{"every hour runs on when it comes twice", "0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "10-25T00:00Z 10-25T01:00Z 10-25T02:00Z"},
		{"the word, too", "@hourly", "Europe/Berlin", "2026-10-24T23:30:00Z", "10-25T00:00Z 10-25T01:00Z"},
		{"half an hour is set", "*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:20:00Z", "04-04T14:30Z 04-04T14:45Z 04-04T15:00Z 04-04T15:15Z"},
		{"midnight is leapt over", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "04-23T22:00Z 04-24T21:00Z"},
		{"a day is leapt over", "0 9 * * *", "Pacific/Apia", "2011-12-29T20:00:00Z", "12-30T10:00Z 12-30T19:00Z"},
		{"new york", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "11-01T05:30Z 11-02T06:30Z"},
		{"the leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "02-29T00:00Z"},
		{"either day", "0 0 1 * 1", "UTC", "2026-06-01T00:00:00Z", "06-08T00:00Z"},
		{"a second past", "0 0 * * *", "UTC", "2026-06-01T00:00:00.5Z", "06-02T00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, from := parse(t, tt.cron, tt.zone), at(t, tt.from)
			var got []string
			for range strings.FieldsSeq(tt.want) {
				from = r.Next(from)
				got = append(got, from.UTC().Format("01-02T15:04Z"))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestOnceADay: in zones with different clock changes, a rule with a fixed hour fires once a day,
// and a rule without an hour fires in every hour of the year.
func TestOnceADay(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tehran", "Africa/Cairo", "Pacific/Chatham", "America/Santiago"} {
		for _, hour := range []string{"0", "1", "2", "3", "4", "23"} {
			r := parse(t, "30 "+hour+" * * *", zone)
			days := make(map[string]int)
			last := time.Date(2026, 1, 1, 12, 0, 0, 0, r.zone)
			for end := last.AddDate(1, 0, 0); ; {
				next := r.Next(last)
				if !next.After(last) {
					t.Fatalf("%s %s: %v after %v", zone, hour, next, last)
				}
				if next.After(end) {
					break
				}
				days[next.In(r.zone).Format(time.DateOnly)]++
				last = next
			}
			if len(days) != 365 {
				t.Errorf("%s %s: %d days", zone, hour, len(days))
			}
			for day, n := range days {
				if n != 1 {
					t.Errorf("%s %s: %d on %s", zone, hour, n, day)
				}
			}
		}
		n, r := 0, parse(t, "0 * * * *", zone)
		from := time.Date(2026, 1, 1, 12, 0, 0, 0, r.zone)
		for next := r.Next(from); !next.After(from.Add(365 * 24 * time.Hour)); next = r.Next(next) {
			n++
		}
		if slices.Contains([]string{"UTC", "Europe/Berlin", "America/New_York"}, zone) && n != 365*24 {
			t.Errorf("%s: %d hours", zone, n)
		}
	}
}

// TestBadCron: an invalid rule is refused, without a panic and without an endless search.
func TestBadCron(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "is required",
		"* * * *":                               "expected exactly 5 fields",
		"* * * * * *":                           "expected exactly 5 fields",
		"60 * * * *":                            "above maximum",
		"*/0 * * * *":                           "positive number",
		"5-1 * * * *":                           "beyond end",
		"@every 5m":                             "@every",
		"@reboot":                               "unrecognized descriptor",
		"TZ=UTC":                                "time_zone",
		"CRON_TZ=UTC * * * * *":                 "time_zone",
		"* * * * mooday":                        "mooday",
		strings.Repeat("1,", 200) + "1 * * * *": "at most 256",
	} {
		r, err := ParseCron(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"0 0 30 2 *", "0 0 31 4 *", ", * * * *", "* * * , *"} {
		if r, err := ParseCron(text, time.UTC); err == nil && !r.Next(time.Unix(1_800_000_000, 0)).IsZero() {
			t.Errorf("%q fires at %v", text, r.Next(time.Unix(1_800_000_000, 0)))
		}
	}
}

func FuzzParseCron(f *testing.F) {
	f.Add("30 2 * * *", int64(1_790_000_000))
	f.Add("TZ=", int64(0))
	f.Add("0 0 29 2 1-5/2", int64(4_000_000_000))
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, from int64) {
		r, err := ParseCron(text, zone)
		if err != nil || from < 0 || from > 1<<33 {
			return
		}
		if next := r.Next(time.Unix(from, 0)); !next.IsZero() && !next.After(time.Unix(from, 0)) {
			t.Errorf("%q: %v is not after %d", text, next, from)
		}
	})
}
