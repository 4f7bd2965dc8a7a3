package config

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Schedule is an entry of [Config.Schedules]: when a run is started, which run, and by which principal.
type Schedule struct {
	// ID is its key in the file.
	ID string `yaml:"-"`
	// Cron has five fields, or is a word like @daily; TimeZone is a name of the IANA time zone database,
	// default UTC.
	Cron     string `yaml:"cron"`
	TimeZone string `yaml:"time_zone"`
	// CatchUp selects the missed times for which runs are started later: none (the default), last or
	// all. CatchUpMost bounds their number if CatchUp is all, default 100.
	CatchUp     string `yaml:"catch_up"`
	CatchUpMost *int   `yaml:"catch_up_most"`
	// MissedAfterSec is the delay in seconds after which a scheduled time counts as missed, default 60.
	// JitterSec is the longest random delay of a start, in seconds.
	MissedAfterSec *int `yaml:"late_sec"`
	JitterSec      int  `yaml:"jitter_sec"`
	// Paused means that no run is started.
	Paused bool `yaml:"paused"`
	// Overlap says whether a run starts while the schedule's previous run has not ended: allow (the default) starts
	// it, skip does not.
	Overlap string `yaml:"overlap"`

	// Namespace, Pack, Agent, Entry, Variables, Input, Labels, Execution and MaxWallTimeSec describe the run that is
	// started. Execution is WORKERS (the default) or SIDECAR.
	Namespace string            `yaml:"namespace"`
	Pack      string            `yaml:"pack"`
	Agent     string            `yaml:"agent"`
	Entry     string            `yaml:"entry"`
	Variables map[string]any    `yaml:"variables"`
	Input     string            `yaml:"input"`
	Labels    map[string]string `yaml:"labels"`
	Execution string            `yaml:"execution"`
	// MaxWallTimeSec is the longest time between start and end of the run, if it is less than the pack's; 0 = the
	// pack's.
	MaxWallTimeSec int `yaml:"max_wall_time_sec"`

	// Principal is the name of the principal that starts the run, default "schedule:ID". Scopes are its
	// scopes, default runs:write.
	Principal string   `yaml:"principal"`
	Scopes    []string `yaml:"scopes"`

	// Zone and JSON are the parsed time zone TimeZone, and Variables as JSON.
	Zone *time.Location `yaml:"-"`
	JSON []byte         `yaml:"-"`
}

// Bounds of schedules.
const (
	maxSchedules   = 1000
	mostCaughtUp   = 1000
	maxScheduleSec = 24 * 60 * 60
)

// ReadSchedules reads the file of [Config.Schedules], YAML or JSON. It returns the schedules in the order of their ids,
// with defaults set. It does not check the cron expressions. served are the existing namespaces. place returns the
// position of a field of a schedule, for example "nightly.cron". Errors: an [*Error] with all faults of the content,
// each with the name of its schedule.
func ReadSchedules(path string, served []string) (all []Schedule, place func(field string) string, err error) {
	var file map[string]*Schedule
	d, err := readDocument("schedules file", path, &file)
	if err != nil {
		return nil, nil, err
	}
	l := &scheduleList{document: d, served: served}
	if len(file) > maxSchedules {
		d.wrong("", "has %d schedules, at most %d", len(file), maxSchedules)
	}
	for _, id := range slices.Sorted(maps.Keys(file)) {
		s := file[id]
		if s == nil {
			s = &Schedule{}
		}
		s.ID, l.id = id, id
		l.schedule(s)
		all = append(all, *s)
	}
	if err := d.err(); err != nil {
		return nil, nil, err
	}
	return all, d.where, nil
}

// scheduleList collects the faults of one file.
type scheduleList struct {
	*document
	id     string
	served []string
}

func (l *scheduleList) at(field, format string, args ...any) {
	if !l.faulty[l.id+"."+field] {
		l.wrong(l.id+"."+field, format, args...)
	}
}

var (
	scheduleID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	principalName = regexp.MustCompile(`^[!-~]{1,128}$`)
)

// schedule checks one schedule and sets its defaults.
func (l *scheduleList) schedule(s *Schedule) {
	if !scheduleID.MatchString(s.ID) {
		l.wrong(s.ID, "%q is no id of a schedule: 1 to 63 of A-Z, a-z, 0-9, '.', '_', '-', the first a letter or digit", s.ID)
	}
	l.times(s)
	l.word("catch_up", &s.CatchUp, "none", "last", "all")
	l.word("overlap", &s.Overlap, "allow", "skip")
	l.word("execution", &s.Execution, "WORKERS", "SIDECAR")
	if s.Pack == "" {
		l.at("pack", "is required: ID, ID@VERSION or sha256:DIGEST")
	}
	if s.Namespace == "" {
		s.Namespace = defaultNamespace
	}
	if !slices.Contains(l.served, s.Namespace) {
		l.at("namespace", "%q is none of %s", s.Namespace, strings.Join(l.served, ", "))
	}
	for key := range s.Labels {
		if key == "" || strings.HasPrefix(key, "pawl.") {
			l.at("labels", "%q is no key: one has at least one letter, and those that begin with pawl. are the sidecar's", key)
		}
	}
	if s.Principal == "" {
		s.Principal = "schedule:" + s.ID
	}
	if !principalName.MatchString(s.Principal) {
		l.at("principal", "%q is no name: 1 to 128 printable letters of ASCII without spaces", s.Principal)
	}
	if s.Scopes == nil {
		s.Scopes = []string{"runs:write"}
	}
	var err error
	if s.JSON, err = json.Marshal(s.Variables); err != nil {
		l.at("variables", "is no JSON: %v", err)
	}
	if s.Variables == nil {
		s.JSON = nil
	}
}

// times checks the time zone, the bounds of delay, catch-up, jitter and wall time, and sets their defaults. It does not
// check cron.
func (l *scheduleList) times(s *Schedule) {
	if s.TimeZone == "" {
		s.TimeZone = "UTC"
	}
	var err error
	if s.Zone, err = time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		l.at("time_zone", "%q is no zone of the IANA's database, as Europe/Berlin is", s.TimeZone)
	}
	l.number("late_sec", &s.MissedAfterSec, 60, 1, maxScheduleSec)
	l.number("catch_up_most", &s.CatchUpMost, 100, 1, mostCaughtUp)
	jitter, wall := &s.JitterSec, &s.MaxWallTimeSec
	l.number("jitter_sec", &jitter, 0, 0, maxScheduleSec)
	l.number("max_wall_time_sec", &wall, 0, 0, int(longestRun/time.Second))
}

// word checks that a field has one of the allowed values. If the field is missing, it gets the first of them.
func (l *scheduleList) word(field string, got *string, allowed ...string) {
	if *got == "" {
		*got = allowed[0]
	}
	if !slices.Contains(allowed, *got) {
		l.at(field, "%q is none of %s", *got, strings.Join(allowed, ", "))
	}
}

// number checks a number and sets the default if it is missing.
func (l *scheduleList) number(field string, got **int, fallback, least, most int) {
	if *got == nil {
		*got = &fallback
	}
	if n := **got; n < least || n > most {
		l.at(field, "is %d, want %d to %d", n, least, most)
	}
}
