package load

import (
	"fmt"
	"time"
)

// Sizes are how much a bench does; they are printed with the figures.
type Sizes struct {
	// Rounds of every comparison.
	Rounds int `json:"rounds"`
	// Warm and Window are the seconds of each arm that are not and that are
	// measured.
	Warm   float64 `json:"warm_s"`
	Window float64 `json:"window_s"`
	// Fsyncs per round.
	Fsyncs int `json:"fsyncs"`
	// Connections of the load process.
	Connections int `json:"connections"`
	// ArtifactBytes is what a transition writes.
	ArtifactBytes int `json:"artifact_bytes"`
	// IdleWatchers never read; Readers read everything.
	IdleWatchers int `json:"idle_watchers"`
	Readers      int `json:"readers"`
	// IdleWorkers are connected without work, each over its own connection.
	IdleWorkers int `json:"idle_workers"`
	// Late and Early are the histories at which a transition is compared;
	// HistoryStep transitions are timed per round at each. LongRunBytes is the
	// raised limit of that run's artifacts.
	ShortHistory int   `json:"early_history"`
	LongHistory  int   `json:"late_history"`
	HistoryStep  int   `json:"history_step"`
	LongRunBytes int64 `json:"late_run_bytes"`
	// WaitingRuns are on disk at the restarts. Restarts counts those after SIGKILL,
	// and again those with all deadlines passed.
	WaitingRuns int `json:"waiting_runs"`
	Restarts    int `json:"restarts"`
	// ManyRuns wait while one is driven, ListedRuns are listed.
	ManyRuns   int `json:"many_runs"`
	ListedRuns int `json:"listed_runs"`
	// StoredTransitions of StoredBytes random bytes each make the run whose disk
	// use is measured, under the raised limit StoredRunBytes.
	StoredTransitions int   `json:"stored_transitions"`
	StoredBytes       int   `json:"stored_bytes"`
	StoredRunBytes    int64 `json:"stored_run_bytes"`
	// IdleStarts of an empty sidecar.
	IdleStarts int `json:"idle_starts"`
	// Moves of the store from one sidecar to another, of each kind.
	Moves int `json:"moves"`
	// ModelPairs of turns are compared in each sample of calls of models.
	ModelPairs int `json:"model_pairs"`
}

// FullSizes are those of the published figures.
func FullSizes() Sizes {
	return Sizes{
		Rounds: 5, Warm: 1, Window: 3, Fsyncs: 400,
		Connections: 4, ArtifactBytes: artifactBytes,
		IdleWatchers: 100, Readers: 4, IdleWorkers: 1000,
		ShortHistory: 100, LongHistory: 20_000, HistoryStep: 400, LongRunBytes: 64 << 20,
		WaitingRuns: 100_000, Restarts: 3, ManyRuns: 1_000_000, ListedRuns: 100_000,
		StoredTransitions: 800, StoredBytes: 2048, StoredRunBytes: 4 << 20,
		IdleStarts: 5, Moves: 10, ModelPairs: 24,
	}
}

// QuickSizes end within two minutes on two cores.
func QuickSizes() Sizes {
	s := FullSizes()
	s.Rounds, s.Warm, s.Window, s.Fsyncs = 3, 0.2, 0.5, 200
	s.LongHistory, s.HistoryStep = 4000, 150
	s.WaitingRuns, s.Restarts, s.ManyRuns, s.ListedRuns = 10_000, 1, 30_000, 10_000
	s.IdleStarts, s.Moves, s.ModelPairs = 3, 3, 8
	return s
}

// String is one line for people.
func (s Sizes) String() string {
	return fmt.Sprintf("%d rounds of %gs after %gs, %d connections, %d B artifact, histories %d and %d, "+
		"%d idle watchers, %d readers, %d idle workers, %d waiting runs, %d of them for the million, %d listed, %d x %d B stored; limits raised for three figures: runs in flight, "+
		"transitions to %d, artifacts of the run to %d MiB and %d MiB",
		s.Rounds, s.Window, s.Warm, s.Connections, s.ArtifactBytes, s.ShortHistory, s.LongHistory,
		s.IdleWatchers, s.Readers, s.IdleWorkers, s.WaitingRuns, s.ManyRuns, s.ListedRuns, s.StoredTransitions, s.StoredBytes,
		s.maxTransitions(), s.LongRunBytes>>20, s.StoredRunBytes>>20)
}

// maxTransitions is the raised limit of the run with the long history.
func (s Sizes) maxTransitions() int {
	return s.LongHistory + (s.Rounds+1)*s.HistoryStep + s.ShortHistory
}

func (s Sizes) warm() time.Duration   { return time.Duration(s.Warm * float64(time.Second)) }
func (s Sizes) window() time.Duration { return time.Duration(s.Window * float64(time.Second)) }
