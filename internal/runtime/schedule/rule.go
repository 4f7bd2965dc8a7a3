package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // Time zones are the same on hosts that have no database.

	"github.com/robfig/cron/v3"
)

// MaxCronBytes bounds the length of a cron expression.
const MaxCronBytes = 256

// Rule is a cron expression in a time zone. Its instants are whole minutes of the zone's clock.
//
// An expression with a fixed hour, like "30 2 * * *", fires once a day, also when the clock is changed.
// If the clock skips the hour, the expression fires at the moment of the change. If the hour occurs
// twice, it fires the first time. An expression whose hour begins with "*" fires every time that the
// clock shows a matching hour.
type Rule struct {
	text string
	spec *cron.SpecSchedule
	zone *time.Location
	// runs reports whether the expression fires in every matching hour, so that it fires twice if an
	// hour occurs twice.
	runs bool
}

// fields parses a cron expression: the five fields minute, hour, day of month, month and day of week,
// or a descriptor like @daily.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// descriptorList are the supported descriptors, for error messages.
const descriptorList = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"

// ParseCron parses a cron expression of five fields or a descriptor. It must not contain a time zone,
// because the zone is a separate setting.
func ParseCron(text string, zone *time.Location) (*Rule, error) {
	text = strings.Join(strings.Fields(text), " ")
	switch {
	case text == "":
		return nil, errors.New("is required: minute, hour, day of month, month, day of week, or one of " + descriptorList)
	case len(text) > MaxCronBytes:
		return nil, fmt.Errorf("has %d bytes, at most %d", len(text), MaxCronBytes)
	case strings.Contains(text, "TZ="):
		return nil, errors.New("names a time zone, which time_zone is for")
	case strings.HasPrefix(text, "@every"):
		return nil, errors.New("@every has no instants that a restart would find again; allowed: five fields, " + descriptorList)
	}
	parsed, err := fields.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w; want minute, hour, day of month, month, day of week, or one of %s", text, err, descriptorList)
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

// String returns the cron expression and the name of its time zone.
func (r *Rule) String() string { return r.text + " " + r.zone.String() }

// Cron returns the expression.
func (r *Rule) Cron() string { return r.text }

// Zone returns the name of the zone.
func (r *Rule) Zone() string { return r.zone.String() }

// periods bounds the number of periods of constant UTC offset that a search examines. A zone has about
// two of them in a year.
const periods = 64

// Next returns the first instant after a time. It returns the zero time if there is none within five
// years.
//
// Next examines the periods in which the UTC offset of the zone is constant. Within a period it treats
// the zone's clock like UTC, where each day has 24 hours.
func (r *Rule) Next(after time.Time) time.Time {
	at := after.In(r.zone)
	from := wall(at)
	for range periods {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		if !r.runs && !start.IsZero() {
			// The hours that the clock shows a second time, after it was set back, must not be counted
			// again.
			from = laterTime(from, wall(start.Add(-time.Nanosecond).In(r.zone)))
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

// wall returns what the clock of the time's zone shows, as a time in UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
