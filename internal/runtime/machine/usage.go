package machine

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// Settled is usage that an input settled, with where it was consumed.
type Settled struct {
	// State is the state that the run was in. Model is the model that was called, or "" if it is not known. Tool is the
	// tool or agent that was called, or "" for a turn or a model call.
	State, Model, Tool string
	// Agent means that Tool is an agent, whose usage is its own run's.
	Agent bool
	UsageSum
}

// UsageSum is a sum of usage. No field is negative, and a field that would overflow stays at the largest int64.
type UsageSum struct {
	// InputTokens, OutputTokens and CostMicro (micro-dollars) were consumed.
	InputTokens, OutputTokens, CostMicro int64
	// Reports is the number of settled reports: of turns, of calls of models, tools and agents, and of estimates for those
	// that never reported.
	Reports int64
}

// Add adds another sum.
func (u *UsageSum) Add(by UsageSum) {
	u.InputTokens, u.OutputTokens = addClamped(u.InputTokens, by.InputTokens), addClamped(u.OutputTokens, by.OutputTokens)
	u.CostMicro, u.Reports = addClamped(u.CostMicro, by.CostMicro), addClamped(u.Reports, by.Reports)
}

// UsageRow is one rollup: what all runs of a namespace settled on a day in one state of a pack, with one model and tool,
// with the same values of the operator's labels. It outlives its runs.
type UsageRow struct {
	Namespace uint32
	// Day is the number of days since 1970-01-01, in UTC, from the time of the records.
	Day                      int64
	Pack, State, Model, Tool string
	// Labels are those of the operator's labels that the runs have, sorted by key.
	Labels []Label
	UsageSum
}

// maxUsageName is the size in bytes of the longest name in a rollup, so that a long name never makes a key that the storage
// engine refuses.
const maxUsageName = 128

// UsageName returns a name as rollups have it. A name that is too long ends with a digest, which keeps two of them apart.
func UsageName(name string) string {
	if strings.IndexByte(name, 0) >= 0 {
		name = strings.ReplaceAll(name, "\x00", "?")
	}
	if len(name) > maxUsageName {
		digest := sha256.Sum256([]byte(name))
		end := fmt.Sprintf("~%x", digest[:4])
		name = strings.ToValidUTF8(name[:maxUsageName-len(end)], "") + end
	}
	return name
}

// UsageOther is the value of a dimension in the rollup of everything that a day has no more rows for.
const UsageOther = "(other)"

// UsageSearch selects rollups by their days, both included.
type UsageSearch struct{ From, To int64 }

// UsageSince says from when on the rollups of a store have all usage.
type UsageSince struct {
	// Complete means that they have it from the beginning of the store. Otherwise an older program began the store, and
	// they have it from the time At on, in Unix nanoseconds. 0 means that no rollup has been written yet.
	Complete bool
	At       int64
}

// UsageDay returns the day of a time in Unix nanoseconds, as [UsageRow.Day].
func UsageDay(at int64) int64 {
	day := at / int64(24*time.Hour)
	if at%int64(24*time.Hour) < 0 {
		day--
	}
	return day
}
