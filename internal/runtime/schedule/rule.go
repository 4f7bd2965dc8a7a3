package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // Zones are the same where the host has none.

	"github.com/robfig/cron/v3"
)

// MaxCronBytes bounds an expression.
const MaxCronBytes = 256

// Rule is an expression of cron in a time zone. Its instants are whole minutes of the zone's
// clock. An hour that is written out, as in "30 2 * * *", is meant to come once a day: where the
// clock leaps over it, the instant is the one at which the clock leaps; where it comes twice,
// it counts once. With an hour that begins with "*" the rule follows the clock as it runs.
type Rule struct {
	text string
	spec *cron.SpecSchedule
	zone *time.Location
	// runs: every hour counts, also one that comes twice.
	runs bool
}

// fields are minute, hour, day of the month, month, day of the week, or a word like @daily.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// words are the descriptors that there are.
const words = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"

// ParseCron reads an expression: five fields or a word. The zone is another setting.
func ParseCron(text string, zone *time.Location) (*Rule, error) {
	text = strings.Join(strings.Fields(text), " ")
	switch {
	case text == "":
		return nil, errors.New("is required: minute, hour, day of month, month, day of week, or one of " + words)
	case len(text) > MaxCronBytes:
		return nil, fmt.Errorf("has %d bytes, at most %d", len(text), MaxCronBytes)
	case strings.Contains(text, "TZ="):
		return nil, errors.New("names a time zone, which time_zone is for")
	case strings.HasPrefix(text, "@every"):
		return nil, errors.New("@every has no instants that a restart would find again; allowed: five fields, " + words)
	}
	parsed, err := fields.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w; want minute, hour, day of month, month, day of week, or one of %s", text, err, words)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q has no instants of a clock", text)
	}
	spec.Location = time.UTC
	parts := strings.Fields(text)
	r := &Rule{text: text, spec: spec, zone: zone, runs: text == "@hourly" || len(parts) > 1 && strings.HasPrefix(parts[1], "*")}
	return r, nil
}

// String is the expression and the zone.
func (r *Rule) String() string { return r.text + " " + r.zone.String() }

// Cron is the expression.
func (r *Rule) Cron() string { return r.text }

// Zone is the name of the zone.
func (r *Rule) Zone() string { return r.zone.String() }

// periods bounds a search; a zone has two a year.
const periods = 64

// Next is the first instant after a time; the zero time: there is none within five years.
//
// It walks over the periods of the zone in which the offset stays the same: there the zone's
// clock is read as if it were UTC's, whose days all have the same hours.
func (r *Rule) Next(after time.Time) time.Time {
	at := after.In(r.zone)
	from := wall(at)
	for range periods {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		if !r.runs && !start.IsZero() {
			// Hours that came before the clock was set back do not come again.
			from = later(from, wall(start.Add(-time.Nanosecond).In(r.zone)))
		}
		next := r.spec.Next(from)
		if next.IsZero() {
			return time.Time{}
		}
		instant := next.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || instant.Before(end) {
			return instant
		}
		at = end.In(r.zone)
		if !r.runs && next.Before(wall(at)) {
			return end.UTC()
		}
		from = wall(at).Add(-time.Nanosecond)
	}
	return time.Time{}
}

// wall is what a clock of the zone shows, as a time of UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
