package budget

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // embeds the time zones, so that they are the same on every host
)

// Window is the period of time after which the consumption in an account starts from zero.
type Window string

// The windows.
const (
	Day   Window = "day"
	Month Window = "month"
	Ever  Window = "ever"
)

// windows lists all windows, for error messages.
var windows = []Window{Day, Month, Ever}

// Begin returns the beginning of the window that contains the instant at. The zero time means that the window has no beginning.
func (w Window) Begin(at time.Time, zone *time.Location) time.Time {
	year, month, day := at.In(zone).Date()
	switch w {
	case Day:
		return firstInstant(year, month, day, zone)
	case Month:
		return firstInstant(year, month, 1, zone)
	default:
		return time.Time{}
	}
}

// End returns the end of the window that contains the instant at. The zero time means that the window has no end.
func (w Window) End(at time.Time, zone *time.Location) time.Time {
	year, month, day := at.In(zone).Date()
	switch w {
	case Day:
		return firstInstant(year, month, day+1, zone)
	case Month:
		return firstInstant(year, month+1, 1, zone)
	default:
		return time.Time{}
	}
}

// firstInstant returns the first instant of a day. If clocks are put forward at midnight, the day begins
// an hour later.
func firstInstant(year int, month time.Month, day int, zone *time.Location) time.Time {
	at := time.Date(year, month, day, 0, 0, 0, 0, zone)
	noon := time.Date(year, month, day, 12, 0, 0, 0, zone)
	if at.Day() != noon.Day() {
		// Midnight does not exist on this day, because the clock was put forward, and time.Date used the offset from before
		// the change.
		_, after := noon.Zone()
		_, before := at.Zone()
		at = at.Add(time.Duration(after-before) * time.Second)
	}
	return at
}

// zoneOf returns a time zone of the IANA database by its name. The name "" means UTC.
func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q is no time zone, want one of the IANA database, for example UTC or Europe/Berlin", name)
	}
	return zone, nil
}
