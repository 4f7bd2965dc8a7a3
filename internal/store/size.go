package store

// Sizes returns the bytes on disk of the pairs (lsm) and of large values that are stored separately
// (log). The engine updates these numbers about once a minute.
func (s *Store) Sizes() (lsm, log int64) { return s.engine.Sizes() }
